# SPDX-License-Identifier: Apache-2.0
"""The facade over spool and sender of one process.

In: frames. Out: requests at the receiver, or values on disk; counters. Imports its neighbours and config.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from glideslope.config import Export
from glideslope.ship.cursor import RETAIN_S, Cursor
from glideslope.ship.delivery import Delivery
from glideslope.ship.fork import guard
from glideslope.ship.lane import Encode
from glideslope.ship.sender import Sender
from glideslope.ship.spool import SpoolWriter
from glideslope.ship.transport import Transport

_log = logging.getLogger("glideslope")


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters of one shipper."""

    queue_bytes: int = 0
    """Bytes on disk that wait for an acknowledgement."""
    lag_s: float = 0.0
    """Age of the oldest record that waits, seconds."""
    sent_points: int = 0
    """Metric points acknowledged; a point that was sent again counts again."""
    replayed_points: int = 0
    """Metric points sent again, because nobody answered the first time or because the store restarted."""
    dropped: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Points, spans and logs by (class, reason)."""


class Shipper:
    """Stores frames at once and ships them in the background. In a forked child every call does nothing."""

    def __init__(self, writer: SpoolWriter, delivery: Delivery, sender: Sender) -> None:
        """Take the parts; `open_shipper` makes them."""
        self._writer, self._delivery, self._sender = writer, delivery, sender
        self.append: Callable[[int, bytes], None] = writer.append
        """`append(kind, payload)` stores one frame: when it returns, the frame survives the death of the process."""
        guard(self)

    @property
    def directory(self) -> Path:
        """The spool folder."""
        return self._writer.directory

    def stats(self) -> Stats:
        """Counters at this moment."""
        if self._writer.inert:
            return Stats()
        dropped = dict(self._writer.dropped)
        for cause, count in dict(self._delivery.ledger.dropped).items():
            dropped[cause] = dropped.get(cause, 0) + count
        waiting = self._writer.sequence > self._delivery.acknowledged
        try:
            oldest = self._writer.marks[0][1]
        except IndexError:
            oldest = time.monotonic()
        return Stats(
            queue_bytes=self._delivery.waiting_bytes() if waiting else 0,
            lag_s=max(0.0, time.monotonic() - oldest) if waiting else 0.0,
            sent_points=self._delivery.ledger.sent_points,
            replayed_points=self._delivery.ledger.replayed_points,
            dropped=dropped,
        )

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything stored so far was acknowledged; False when `timeout_s` seconds passed."""
        return self._writer.inert or self._sender.flush(timeout_s)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Ship what is left within `timeout_s` seconds; True when nothing is left on disk."""
        if self._writer.inert:
            return True
        done = self._sender.close(timeout_s)
        self._writer.close()
        return done

    def before_fork(self) -> None:
        """Hold the append lock over the fork, so that the child inherits whole state."""
        self._writer.lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._writer.lock.release()

    def after_fork_in_child(self) -> None:
        """Become inert."""
        self._writer.abandon()


def open_shipper(
    directory: Path,
    encode: Encode,
    export: Export,
    *,
    retain_s: float = RETAIN_S,
    paths: Mapping[str, str] | None = None,
    quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
    segment_bytes: int = 8 << 20,
    segment_age_s: float = 30.0,
    loud: bool = True,
) -> Shipper:
    """Open the spool of this process below or beside `directory` and start its threads.

    `encode(frames, max_points, max_bytes)` turns (kind, payload) frames into OTLP requests, in the sender thread.
    `retain_s`: see `cursor`; `paths` replaces the signal paths behind the endpoint; `quiet` is entered by
    each thread (it keeps other instrumentations from tracing our requests). Of the ranks of a node one is `loud`: the
    others log their warnings at debug level. Raises nothing: a folder that cannot be
    written shows in the drop counters and is tried again.
    """
    say = _log.warning if loud else _log.debug
    writer = SpoolWriter(
        directory,
        quota_bytes=export.quota_bytes,
        segment_bytes=segment_bytes,
        segment_age_s=segment_age_s,
        say=say,
    )
    cursor = Cursor(writer.directory, retain_s)
    transport = Transport(export) if paths is None else Transport(export, paths)
    delivery = Delivery(
        cursor,
        encode,
        transport,
        export.endpoint,
        live=lambda: True,
        newest=lambda: writer.sequence,
        say=say,
        inform=_log.info if loud else _log.debug,
        quiet=quiet,
    )
    sender = Sender(writer, cursor, delivery, quiet=quiet)
    shipper = Shipper(writer, delivery, sender)
    sender.start()
    return shipper
