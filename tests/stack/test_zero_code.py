# SPDX-License-Identifier: Apache-2.0
"""`opentelemetry-instrument` works with plain OpenTelemetry variables; the script itself notices nothing."""

import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from glideslope.store.victoria import Victoria

TRAIN = Path(__file__).parents[2] / "instrumentation" / "glideslope" / "demo" / "train.py"
SMALL = ["--steps", "12", "--batch", "2", "--length", "16", "--width", "16", "--depth", "1", "--heads", "2"]
INSTRUMENT = str(Path(sys.executable).with_name("opentelemetry-instrument"))
GLIDESLOPE = [sys.executable, "-m", "glideslope", "run", "--"]
SPEED = re.compile(r"[0-9.]+ steps/s")


def environment(stack: Any | None, home: Path, **more: str) -> dict[str, str]:
    """The test's environment without anything of glideslope or OpenTelemetry, then what is asked for."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GLIDESLOPE_", "OTEL_"))}
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": stack.otlp_http} if stack else {}
    return {**clean, "GLIDESLOPE_HOME": str(home), **endpoint, **more}


def start(command: list[str], environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)


def losses(stack: Any, run_id: str) -> int:
    with Victoria(stack.live) as store:
        store.flush()
        exported = store.export(f'train_loss{{run_id="{run_id}"}}')
        return sum(math.isfinite(value) for series in exported for value in series.values)


def test_opentelemetry_instrument_needs_only_opentelemetry_s_own_variables(stack: Any, tmp_path: Path) -> None:
    run_id = f"otel-{os.getpid()}"
    environ = environment(
        stack, tmp_path, OTEL_SERVICE_NAME="my-trainer", OTEL_RESOURCE_ATTRIBUTES=f"run.id={run_id},run.name=plain"
    )
    done = start([INSTRUMENT, sys.executable, str(TRAIN), *SMALL], environ)
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + 20
    while losses(stack, run_id) < 12 and time.monotonic() < deadline:
        time.sleep(0.3)
    with Victoria(stack.live) as store:
        (series,) = store.export(f'train_loss{{run_id="{run_id}"}}')
        (beats,) = store.export(f'train_heartbeat_seconds{{run_id="{run_id}"}}')
    assert losses(stack, run_id) == 12
    assert series.labels["service_name"] == "my-trainer"
    # One at the start and one at the end, though the run is shorter than the pause between two.
    assert sum(map(math.isfinite, beats.values)) >= 2


def test_the_switch_of_opentelemetry_turns_everything_off(stack: Any, tmp_path: Path) -> None:
    run_id = f"off-{os.getpid()}"
    environ = environment(
        stack, tmp_path / "home", OTEL_SDK_DISABLED="true", OTEL_RESOURCE_ATTRIBUTES=f"run.id={run_id}"
    )
    done = start([INSTRUMENT, sys.executable, str(TRAIN), *SMALL], environ)
    assert done.returncode == 0
    assert "glideslope" not in done.stderr
    assert losses(stack, run_id) == 0
    assert not (tmp_path / "home").exists()


def without_speed(text: str) -> str:
    return SPEED.sub("N steps/s", text)


@pytest.mark.parametrize("incident", [None, "crash"])
def test_stdout_exit_code_and_traceback_are_the_same_with_and_without(
    stack: Any, tmp_path: Path, incident: str | None
) -> None:
    script = [sys.executable, str(TRAIN), *SMALL, *(["--incident", incident] if incident else [])]
    plain = start(script, environment(None, tmp_path))
    watched = start([*GLIDESLOPE, *script], environment(stack, tmp_path))
    assert without_speed(watched.stdout) == without_speed(plain.stdout)
    assert watched.returncode == plain.returncode == (1 if incident else 0)
    ours = [line for line in watched.stderr.splitlines() if not line.startswith("glideslope: ")]
    assert ours == plain.stderr.splitlines()


def test_a_traceback_through_backward_shows_none_of_our_frames(stack: Any, tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text(
        "import torch\n"
        "w = torch.nn.Parameter(torch.ones(2))\n"
        "o = torch.optim.SGD([w], lr=0.1)\n"
        "w.sum().backward(); o.step()\n"
        "w.backward()\n"
    )
    plain = start([sys.executable, str(script)], environment(None, tmp_path))
    watched = start([*GLIDESLOPE, sys.executable, str(script)], environment(stack, tmp_path))
    ours = [line for line in watched.stderr.splitlines() if not line.startswith("glideslope: ")]
    assert "RuntimeError" in plain.stderr
    assert ours == plain.stderr.splitlines()
    assert watched.returncode == plain.returncode == 1


def test_with_the_stack_down_training_ends_well_with_one_warning(tmp_path: Path) -> None:
    nothing_listens = "http://127.0.0.1:9"
    script = [sys.executable, str(TRAIN), *SMALL]
    environ = environment(None, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=nothing_listens, GLIDESLOPE_RUN_ID="down")
    began = time.monotonic()
    plain = start(script, environment(None, tmp_path))
    middle = time.monotonic()
    watched = start([*GLIDESLOPE, *script], environ)
    delay = (time.monotonic() - middle) - (middle - began)
    assert watched.returncode == 0
    assert without_speed(watched.stdout) == without_speed(plain.stdout)
    warnings = [line for line in watched.stderr.splitlines() if "cannot be sent" in line]
    assert len(warnings) == 1, watched.stderr
    assert nothing_listens in warnings[0]
    # Ranks and launcher share 5 s; the rest is the start of the launcher itself on a loaded machine.
    assert delay < 8
    assert list((tmp_path / "spool" / "down").rglob("*.seg"))


def test_what_could_not_be_sent_is_sent_later_by_sync(stack: Any, tmp_path: Path) -> None:
    run_id = f"late-{os.getpid()}"
    environ = environment(None, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", GLIDESLOPE_RUN_ID=run_id)
    environ["GLIDESLOPE_EXIT_TIMEOUT"] = "0.5"
    assert start([*GLIDESLOPE, sys.executable, str(TRAIN), *SMALL], environ).returncode == 0
    assert losses(stack, run_id) == 0
    done = start([sys.executable, "-m", "glideslope", "sync"], environment(stack, tmp_path))
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + 20
    while losses(stack, run_id) < 12 and time.monotonic() < deadline:
        time.sleep(0.3)
    assert losses(stack, run_id) == 12
    again = start([sys.executable, "-m", "glideslope", "sync"], environment(stack, tmp_path))
    assert again.returncode == 0
    assert losses(stack, run_id) == 12
