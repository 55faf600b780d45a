# SPDX-License-Identifier: Apache-2.0
"""What `glideslope run` gives to the training command: the environment that instruments it, and its run id.

In: the command line and the environment. Out: environment variables for the child. Starts nothing itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from glideslope import env
from glideslope.config import Home
from glideslope.errors import ConfigError
from glideslope.run.identity import check_run_id, new_run_id, next_attempt, safe_run_id

BOOTSTRAP = Path(__file__).parent / "bootstrap"
LEFTOVERS_SHARE = 0.2
"""Part of the exit timeout that the launcher keeps for what dead ranks left; the ranks themselves get the rest."""
_RENDEZVOUS = ("--rdzv-id", "--rdzv_id")
_RUNNERS = frozenset(
    {"torchrun", "accelerate", "deepspeed", "python", "python3", "env", "srun", "numactl", "nohup", "uv"}
)


@dataclass(frozen=True, slots=True)
class Launch:
    """A training command with the environment that instruments it."""

    command: tuple[str, ...]
    environ: Mapping[str, str]
    run_id: str
    attempt: int


def _rendezvous_id(command: Sequence[str]) -> str:
    for at, word in enumerate(command):
        name, equals, value = word.partition("=")
        if name in _RENDEZVOUS:
            return value if equals else "".join(command[at + 1 : at + 2])
    return ""


def _script(command: Sequence[str]) -> str:
    """The word of the command that most likely names the training: its first Python file, or its first own word."""
    for word in command:
        if word.endswith(".py"):
            return word
    for word in command:
        if PurePath(word).name not in _RUNNERS and not word.startswith("-") and not word.isdigit():
            return word
    return command[0]


def prepare(command: Sequence[str], *, run_id: str = "", name: str = "", home: Home | None = None) -> Launch:
    """Prepare a training command.

    The run id is `run_id`, else what the environment or torchrun's --rdzv-id names (so that every node agrees), else
    fresh. Starting a run again on this host makes the next attempt. Raises ConfigError for an empty command or a run id
    that cannot be used.
    """
    if not command:
        raise ConfigError("no command given: write `glideslope run -- torchrun train.py`")
    environ, home = env.environment(), home or Home.from_env()
    chosen = check_run_id(run_id) if run_id else env.GLIDESLOPE_RUN_ID.get() or _rendezvous_id(command)
    if not chosen and (job := env.SLURM_JOB_ID.get()):
        chosen = f"slurm-{job}"
    chosen = safe_run_id(chosen) if chosen else new_run_id(_script(command))
    attempt = env.GLIDESLOPE_RUN_ATTEMPT.get()
    if attempt < 0:
        attempt = next_attempt(home, chosen)
    environ[env.GLIDESLOPE_RUN_ID.name] = chosen
    environ[env.GLIDESLOPE_RUN_ATTEMPT.name] = str(attempt)
    if name:
        environ[env.GLIDESLOPE_RUN_NAME.name] = name
    environ[env.GLIDESLOPE_HOME.name] = str(home.root)
    environ[env.GLIDESLOPE_EXIT_TIMEOUT.name] = f"{env.GLIDESLOPE_EXIT_TIMEOUT.get() * (1 - LEFTOVERS_SHARE):g}"
    environ[env.PYTHONPATH.name] = os.pathsep.join(filter(None, (str(BOOTSTRAP), env.PYTHONPATH.get())))
    environ.pop(env.GLIDESLOPE_ACTIVE.name, None)
    return Launch(tuple(command), environ, chosen, attempt)
