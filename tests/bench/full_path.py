# SPDX-License-Identifier: Apache-2.0
"""A sink for `overhead.py` that is the whole path of a session: writer, spool and sender to the collector.

Run it beside a stack: `python tests/bench/overhead.py --sink full_path:write`. In: events. Out: values in the store.
"""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path

from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import Event
from glideslope.run.identity import identify
from glideslope.ship import open_shipper


@cache
def _writer() -> EventWriter:
    folder = tempfile.TemporaryDirectory(prefix="glideslope-bench-")
    shipper = open_shipper(Path(folder.name), RequestEncoder(), Export.from_env())

    def stop() -> None:
        if not shipper.close(5.0):
            raise SystemExit("not everything was sent: start the stack first (`glideslope up`)")
        folder.cleanup()

    atexit.register(stop)
    return EventWriter(identify().resource(), shipper.append)


def write(event: Event) -> None:
    """Send one event as a session does."""
    _writer().write(event)
