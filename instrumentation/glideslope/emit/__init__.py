# SPDX-License-Identifier: Apache-2.0
"""Events in, OTLP bytes out: series blocks, spans, logs.

Two halves that meet on disk: `EventWriter` packs events into compact frames on the training thread; `RequestEncoder`
turns frames into OTLP requests where they are shipped.
"""

from glideslope.emit.encoder import Request, RequestEncoder
from glideslope.emit.keep import KeepRule
from glideslope.emit.quiet import suppress_instrumentation
from glideslope.emit.recorder import EventWriter

__all__ = ["EventWriter", "KeepRule", "Request", "RequestEncoder", "suppress_instrumentation"]
