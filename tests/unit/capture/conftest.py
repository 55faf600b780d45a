# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the capture tests: a recorder on real torch that keeps its events, and scripts in their own process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from glideslope.capture import Recorder
from glideslope.config import Capture
from glideslope.events import Happened, LayerStats, StepDone


class Tape:
    """A recorder with the events it sent."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.recorder: Recorder | None = None

    def start(self, **options: Any) -> Recorder:
        options.setdefault("settings", Capture(layers_every=0))
        options.setdefault("sink", self.events.append)
        self.recorder = Recorder(**options)
        self.recorder.install()
        return self.recorder

    def stop(self) -> None:
        if self.recorder is not None:
            self.recorder.uninstall()

    @property
    def steps(self) -> list[StepDone]:
        return [event for event in self.events if isinstance(event, StepDone)]

    @property
    def layers(self) -> list[LayerStats]:
        return [event for event in self.events if isinstance(event, LayerStats)]

    @property
    def happened(self) -> list[Happened]:
        return [event for event in self.events if isinstance(event, Happened)]


@pytest.fixture
def tape() -> Iterator[Tape]:
    """A recorder that is not started; a test that ends with failed callbacks fails unless it clears `expect_errors`."""
    torch.manual_seed(0)
    made = Tape()
    yield made
    made.stop()


@pytest.fixture
def recorder(tape: Tape) -> Iterator[Recorder]:
    """A recorder that watches this process; none of its callbacks may have failed at the end."""
    made = tape.start()
    yield made
    made.uninstall()
    assert made.errors() == {}
