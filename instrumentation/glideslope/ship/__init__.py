# SPDX-License-Identifier: Apache-2.0
"""The spool, the sender and fork safety.

Frames go to files at once and to the receiver in the background; `sync` ships what dead processes left.
"""

from glideslope.ship.shipper import Shipper, Stats, open_shipper
from glideslope.ship.sync import SyncReport, sync

__all__ = ["Shipper", "Stats", "SyncReport", "open_shipper", "sync"]
