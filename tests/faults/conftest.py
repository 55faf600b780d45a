# SPDX-License-Identifier: Apache-2.0
"""A receiver, and scripts that ship to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import Script, Start

from glideslope.testing import OtlpReceiver


@pytest.fixture
def start(tmp_path: Path, receiver: OtlpReceiver) -> Iterator[Start]:
    began: list[Script] = []
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GLIDESLOPE_", "OTEL_"))}

    def run(text: str, **more: str) -> Script:
        environ = clean | {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OMP_NUM_THREADS": "1"} | more
        began.append(Script(tmp_path, text, environ))
        return began[-1]

    yield run
    for script in began:
        if script.process.poll() is None:
            script.process.kill()
            script.process.communicate()
