# SPDX-License-Identifier: Apache-2.0
"""A run in this very process, with a receiver behind it; and scripts in processes of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import glideslope
from glideslope.emit import EventWriter
from glideslope.testing import OtlpReceiver

_OURS = ("GLIDESLOPE_", "OTEL_", "RANK", "LOCAL_", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_", "SLURM_")


@pytest.fixture
def environment(tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of a process that ships to `receiver`; this process has them too, and no others of ours."""
    for name in [name for name in os.environ if name.startswith(_OURS)]:
        monkeypatch.delenv(name)
    ours = {"GLIDESLOPE_HOME": str(tmp_path / "home"), "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint}
    for name in ("GLIDESLOPE_ACTIVE", "GLIDESLOPE_ACTIVE_RUN"):
        # Set first, so that what the run puts there is taken back at the end.
        monkeypatch.setenv(name, "")
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    return ours


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every event that the writer of this process got, in order."""
    seen: list[Any] = []
    write = EventWriter.write

    def remember(self: EventWriter, event: Any) -> None:
        seen.append(event)
        write(self, event)

    monkeypatch.setattr(EventWriter, "write", remember)
    return seen


@pytest.fixture
def run(environment: dict[str, str], events: list[Any]) -> Iterator[glideslope.Run]:
    """A run that this process began itself."""
    opened = glideslope.init(name="mine", strict=False)
    yield opened
    opened.close()


@pytest.fixture
def run_script(environment: dict[str, str], run_script: Any) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python text as a script in a process of its own, with warnings as errors; `launcher` goes before it."""

    def start(text: str, *, launcher: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = run_script(text, launcher=("-W", "error", *launcher), **more)
        return done

    return start
