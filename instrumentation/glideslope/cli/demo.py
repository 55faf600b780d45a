# SPDX-License-Identifier: Apache-2.0
"""`glideslope demo`: train a small GPT on two ranks under `glideslope run`, live in the viewer.

In: options. Out: a running stack, a finished training, the URLs and the next command. The GPUs of the demonstration are
simulated: pages in DCGM exporter's format, marked `gpu_simulated="true"`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import click

from glideslope import env
from glideslope.cli.run import say, ship_leftovers, start_and_wait
from glideslope.cli.stack import starting
from glideslope.config import Export, Home, Ports
from glideslope.errors import StackError
from glideslope.run.launch import Launch, prepare
from glideslope.stack.supervisor import ensure_up
from glideslope.store.victoria import Victoria

RANKS = 2
GPUS = ("GPU-51a1u1a7-0000-4000-8000-000000000000", "GPU-51a1u1a7-0000-4000-8000-000000000001")
INCIDENTS = ("nan", "spike", "stall", "crash")
SCRIPT = Path(__file__).parents[1] / "demo" / "train.py"


@contextmanager
def simulated_gpus(run_id: str, ports: Ports) -> Iterator[None]:
    """Serve simulated DCGM pages for the run while the block runs."""
    command = [
        sys.executable,
        *("-m", "glideslope.testing", "gpus", "--uuids", ",".join(GPUS), "--port", str(ports.gpu_exporter)),
        *("--store", ports.url("live"), "--run", run_id),
    ]
    exporter = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        exporter.send_signal(signal.SIGTERM)
        try:
            exporter.wait(5)
        except subprocess.TimeoutExpired:
            exporter.kill()
            exporter.wait()


def training(steps: int, incident: str | None, truth: str, run_id: str, home: Home) -> Launch:
    """The training command of the demonstration: torchrun with two ranks of the plain script."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(RANKS),
        str(SCRIPT),
    ]
    command += ["--steps", str(steps)]
    if incident:
        command += ["--incident", incident]
    if truth:
        command += ["--truth", truth]
    launch = prepare(command, run_id=run_id, name="demo: small GPT on 2 ranks", home=home)
    # torchrun would set this and print a warning about it.
    environ = {"OMP_NUM_THREADS": "1", **launch.environ, env.GLIDESLOPE_GPU_UUIDS.name: ",".join(GPUS)}
    return Launch(launch.command, environ, launch.run_id, launch.attempt)


def run_url(ports: Ports, run_id: str) -> str:
    """Address of the Run dashboard for a run."""
    return f"{ports.url('server')}/d/glideslope-run?var-run={run_id}&from=now-15m&to=now&refresh=5s"


def wait_for_values(ports: Ports, run_id: str, steps: int, timeout_s: float = 30.0) -> bool:
    """Wait until the live store shows the run's last step; False when it does not within the timeout."""
    store, deadline = Victoria(ports.url("live")), time.monotonic() + timeout_s
    query = f'max(max_over_time(train_step{{run_id="{run_id}"}}[1d]))'
    while time.monotonic() < deadline:
        if any(sample.value >= steps for sample in store.query(query)):
            return True
        time.sleep(0.5)
    return False


@click.command()
@click.option("--steps", default=300, show_default=True, type=click.IntRange(min=1), help="Optimizer steps.")
@click.option("--headless", is_flag=True, help="Open no browser.")
@click.option("--incident", type=click.Choice(INCIDENTS), help="Break the training at two thirds, to see an alert.")
@click.option("--run", "run_id", default="", metavar="ID", help="Run id; default: a fresh one.")
@click.option("--truth", default="", metavar="FILE", help="Write what the script itself saw to FILE.rank<r>.")
def demo(steps: int, headless: bool, incident: str | None, run_id: str, truth: str) -> None:
    """Train a small GPT on 2 ranks and watch it live."""
    if find_spec("torch") is None:
        raise StackError("the demonstration trains with PyTorch: pip install 'glideslope[demo]'")
    home, ports = Home.from_env(), Ports.from_env()
    with starting() as show:
        ensure_up(home, ports, show)
    launch = training(steps, incident, truth, run_id, home)
    url = run_url(ports, launch.run_id)
    say(f"run {launch.run_id}: watch it live at {url}")
    say("the GPUs on the GPU dashboard are simulated; everything else is real")
    if not headless:
        webbrowser.open(url)
    export = Export.from_env()
    with simulated_gpus(launch.run_id, ports):
        code = start_and_wait(launch.command, dict(launch.environ))
        ship_leftovers(home.spool / launch.run_id, export)
        complete = code != 0 or wait_for_values(ports, launch.run_id, steps)
    say(f"training ended with exit code {code}" + (" as asked for" if code and incident == "crash" else ""))
    if not complete:
        raise StackError(f"the last step did not arrive in the live store: see `glideslope status` and {home.log}")
    click.echo(f"\nRun       {url}")
    for name in ("layers", "gpu", "telemetry"):
        address = f"{ports.url('server')}/d/glideslope-{name}?var-run={launch.run_id}&from=now-15m&to=now"
        click.echo(f"{name.capitalize():9} {address}")
    click.echo(f"Alerts    {ports.url('server')}/alerts")
    follow = "glideslope demo --incident nan" if not incident else "glideslope run -- torchrun YOUR_SCRIPT.py"
    click.echo(f"\nNext: {follow}    (stop the stack with: glideslope down)")
    if code and incident != "crash":
        sys.exit(code)
