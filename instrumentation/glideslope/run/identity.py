# SPDX-License-Identifier: Apache-2.0
"""Who this process is: run, attempt, rank and host, the same answer on every rank without asking the network.

In: the environment that launchers set. Out: an `Identity`. Imports env, config and errors only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from glideslope import env
from glideslope._version import __version__
from glideslope.config import Home
from glideslope.errors import ConfigError

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
_LABEL_BYTES = 1024

Value = str | int | float | bool


def check_run_id(text: str) -> str:
    """Return `text` when it can be a run id (1 to 128 characters, url-safe); raises ConfigError otherwise."""
    if not _SAFE.fullmatch(text):
        raise ConfigError(
            f"run id {text[:80]!r} is not usable: write 1 to 128 letters, digits, '.', '_', '~' or '-', "
            "beginning with a letter or digit"
        )
    return text


def safe_run_id(text: str) -> str:
    """Make a run id out of any text; texts that had to be changed get a hash so that they stay apart."""
    if _SAFE.fullmatch(text):
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
    kept = re.sub(r"[^A-Za-z0-9._~-]+", "-", text).strip("-._~")[:100]
    return f"{kept or 'run'}-{digest}"


def new_run_id(script: str, now_s: float | None = None) -> str:
    """Make a fresh run id from a script's name, the UTC time and four random hex digits."""
    stem = re.sub(r"[^A-Za-z0-9-]+", "-", Path(script).stem).strip("-")[:40] or "run"
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_s))
    return f"{stem}-{stamp}-{secrets.token_hex(2)}"


@dataclass(frozen=True, slots=True)
class Identity:
    """Run, attempt and rank of one training process."""

    run_id: str
    run_name: str
    attempt: int
    rank: int
    local_rank: int
    world_size: int
    host: str
    service: str
    gpu: str = ""
    """UUID of the GPU that this rank uses; empty when there is none or it cannot be asked."""
    extra: Mapping[str, str] | None = None
    """Resource attributes that the person set in OTEL_RESOURCE_ATTRIBUTES."""

    def resource(self) -> dict[str, Value]:
        """Resource attributes of everything that this process sends."""
        own: dict[str, Value] = {
            "service.name": self.service,
            "service.instance.id": f"{self.run_id}/{self.attempt}/{self.rank}",
            "host.name": self.host,
            "process.pid": os.getpid(),
            "run.id": self.run_id,
            "run.name": self.run_name,
            "run.attempt": self.attempt,
            "dist.rank": self.rank,
            "dist.local_rank": self.local_rank,
            "dist.world_size": self.world_size,
            "telemetry.sdk.name": "glideslope",
            "telemetry.sdk.language": "python",
            "telemetry.sdk.version": __version__,
        }
        if self.gpu:
            own["hw.id"] = self.gpu
        return {**{key: value[:_LABEL_BYTES] for key, value in (self.extra or {}).items()}, **own}

    def for_children(self) -> str:
        """What the multiprocessing children of this process must know to belong to its run."""
        return json.dumps([self.run_id, self.attempt, self.rank, env.RANK.get(), self.run_name])

    def spool_folder(self, spool: Path) -> Path:
        """Folder of this process below the spool; one writer each, so the process id is part of it."""
        return spool / self.run_id / str(self.attempt) / f"rank{self.rank}-{os.getpid()}"


class Parent(NamedTuple):
    """The run that a multiprocessing child belongs to, because its parent records it."""

    run_id: str
    attempt: int
    rank: int
    env_rank: int
    """RANK in the parent's environment, -1 without: a child that has the same inherited it."""
    run_name: str


def read_parent(text: str) -> Parent | None:
    """Read what `Identity.for_children` wrote; None for anything else."""
    try:
        run_id, attempt, rank, env_rank, run_name = json.loads(text)
        return Parent(check_run_id(run_id), int(attempt), int(rank), int(env_rank), str(run_name))
    except (ValueError, TypeError):
        return None


def _first(*numbers: int, default: int) -> int:
    return next((number for number in numbers if number >= 0), default)


def _run_id(environ: Mapping[str, str] | None, extra: Mapping[str, str], script: str) -> str:
    for named in (env.GLIDESLOPE_RUN_ID.get(environ), extra.get("run.id", "")):
        if named:
            return safe_run_id(named)
    elastic = env.TORCHELASTIC_RUN_ID.get(environ)
    if elastic and elastic != "none":
        return safe_run_id(elastic)
    if job := env.SLURM_JOB_ID.get(environ):
        return safe_run_id(f"slurm-{job}")
    if env.RANK.get(environ) >= 0 and env.WORLD_SIZE.get(environ) > 1:
        # torchrun without an id: its ranks share the rendezvous address and, on one host, the launcher process.
        local = env.LOCAL_WORLD_SIZE.get(environ) == env.WORLD_SIZE.get(environ)
        launcher = f"{os.getppid()}:{_started(os.getppid())}" if local else ""
        seed = f"{env.MASTER_ADDR.get(environ)}:{env.MASTER_PORT.get(environ)}:{launcher}"
        return f"{Path(script).stem or 'run'}-{hashlib.blake2b(seed.encode(), digest_size=5).hexdigest()}"
    return new_run_id(script)


def _started(pid: int) -> str:
    """Start time of a process in clock ticks since boot (proc(5), field 22); empty where /proc is absent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def attempts_folder(home: Home, run_id: str) -> Path:
    """Folder with one empty file per attempt of a run that this host has seen."""
    return home.root / "runs" / run_id / "attempts"


def next_attempt(home: Home, run_id: str) -> int:
    """The number after the highest attempt that this host has seen; 0 for a new run."""
    try:
        seen = [int(path.name) for path in attempts_folder(home, run_id).iterdir() if path.name.isdigit()]
    except OSError:
        return 0
    return max(seen, default=-1) + 1


def note_attempt(home: Home, run_id: str, attempt: int) -> None:
    """Remember that an attempt began; failures are ignored, since a full disk must not stop training."""
    folder = attempts_folder(home, run_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(attempt)).touch()
    except OSError:
        return


def identify(environ: Mapping[str, str] | None = None, *, argv: list[str] | None = None) -> Identity:
    """Find out run, attempt, rank and host from the environment.

    Order for the run id: GLIDESLOPE_RUN_ID, run.id in OTEL_RESOURCE_ATTRIBUTES, torchrun's rendezvous id, Slurm's job,
    the rendezvous address, a fresh one. The attempt is GLIDESLOPE_RUN_ATTEMPT plus the restarts that torchrun counted,
    or Slurm's requeues. Raises ConfigError when a variable holds what cannot be read.
    """
    script = next(iter(argv if argv is not None else sys.argv), "") or "python"
    extra = env.OTEL_RESOURCE_ATTRIBUTES.get(environ)
    run_id = _run_id(environ, extra, script)
    base = env.GLIDESLOPE_RUN_ATTEMPT.get(environ)
    if base < 0:
        base = env.SLURM_RESTART_COUNT.get(environ)
    rank = _first(env.RANK.get(environ), env.SLURM_PROCID.get(environ), default=0)
    local_rank = _first(env.LOCAL_RANK.get(environ), env.SLURM_LOCALID.get(environ), default=0)
    gpus = env.GLIDESLOPE_GPU_UUIDS.get(environ)
    return Identity(
        run_id=run_id,
        run_name=(env.GLIDESLOPE_RUN_NAME.get(environ) or extra.get("run.name", "") or run_id)[:_LABEL_BYTES],
        attempt=base + env.TORCHELASTIC_RESTART_COUNT.get(environ),
        rank=rank,
        local_rank=local_rank,
        world_size=max(1, _first(env.WORLD_SIZE.get(environ), env.SLURM_NTASKS.get(environ), default=1)),
        host=socket.gethostname(),
        service=env.OTEL_SERVICE_NAME.get(environ) or extra.get("service.name", "") or "glideslope-training",
        gpu=gpus[local_rank] if local_rank < len(gpus) else "",
        extra=extra,
    )
