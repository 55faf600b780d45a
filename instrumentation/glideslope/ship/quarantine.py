# SPDX-License-Identifier: Apache-2.0
"""Bodies that the receiver refuses for good: kept beside the spool with the reason, within bounds.

In: signal, body, reason. Out: files in `rejected/`. Imports nothing of glideslope.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

_FILES = 100
_BYTES = 64 << 20


class Quarantine:
    """Keeps at most 100 bodies and 64 MiB; what comes later is only counted by the caller."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "rejected"
        self._files = 0
        self._bytes = 0

    def keep(self, signal: str, body: bytes, points: int, reason: str) -> Path | None:
        """Store one body; returns its path, or None when the bounds are reached or the disk refuses."""
        if self._files >= _FILES or self._bytes + len(body) > _BYTES:
            return None
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            taken = {path.name.partition("-")[0] for path in self._directory.iterdir()}
            number = next(n for n in range(1, 1_000_000) if f"{n:06d}" not in taken)
            path = self._directory / f"{number:06d}-{signal}.bin"
            path.write_bytes(body)
            about = {"signal": signal, "points": points, "reason": reason}
            path.with_suffix(".json").write_text(json.dumps(about))
            self._files += 1
            self._bytes += len(body)
            return path
        return None
