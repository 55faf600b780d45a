# SPDX-License-Identifier: Apache-2.0
"""Python scripts in processes of their own, with a receiver behind them, and what the receiver then holds."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glideslope.config import Export
from glideslope.emit import RequestEncoder
from glideslope.ship import sync
from glideslope.testing import OtlpReceiver

HANG_S = 300
"""A script that takes longer hangs: the slowest starts eight workers that import torch, on however few cores."""


class Script:
    """A Python process with a spool of its own below `spool`."""

    def __init__(self, folder: Path, text: str, environ: dict[str, str]) -> None:
        self.spool = folder / "spool"
        path = folder / "train.py"
        path.write_text(textwrap.dedent(text))
        self.process = subprocess.Popen(
            [sys.executable, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environ | {"GLIDESLOPE_HOME": str(folder), "GLIDESLOPE_SPOOL": str(self.spool)},
        )

    def finish(self) -> tuple[int, str, str]:
        """(exit code, stdout, stderr); fails when the process hangs."""
        try:
            out, err = self.process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            pytest.fail(f"the process hangs: {out[-2000:]}\n{err[-2000:]}")
        return self.process.returncode, out, err

    def spools(self) -> list[str]:
        """Names of the folders that processes wrote to."""
        return sorted({path.parent.name for path in self.spool.rglob("*.seg")})


def ship_the_rest(script: Script, receiver: OtlpReceiver) -> None:
    report = sync(script.spool, RequestEncoder, Export(endpoint=receiver.endpoint))
    assert (report.remaining_bytes, report.living) == (0, 0)


class Stored:
    """What a store with deduplication holds of the logged values, decoded once."""

    def __init__(self, receiver: OtlpReceiver) -> None:
        self._found: dict[tuple[Any, Any], dict[int, float]] = {}
        for point in receiver.metrics("train.metric"):
            key = (point.attributes["metric.name"], point.resource["dist.rank"])
            self._found.setdefault(key, {})[point.time_ns] = point.value

    def of(self, name: str, rank: int = 0) -> list[float]:
        """Values of one name by time, without the marker that ends a series: it decodes as 0, scripts log from 1."""
        found = self._found.get((name, rank), {})
        return [found[moment] for moment in sorted(found) if found[moment]]


def counted(receiver: OtlpReceiver, name: str, rank: int = 0) -> list[float]:
    """Values of one name and rank by time."""
    return Stored(receiver).of(name, rank)


def ranks(receiver: OtlpReceiver) -> set[Any]:
    return {point.resource["dist.rank"] for point in receiver.metrics()}


Start = Callable[..., Script]
"""Start a script: its text, then environment variables by name."""
