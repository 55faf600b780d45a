# SPDX-License-Identifier: Apache-2.0
"""Which processes are instrumented: training processes, and nothing else that Python starts on the way.

In: the environment and the command line of this process. Out: a reason to stay out, or None. Imports env only.
`opentelemetry-instrument` and `glideslope run` reach every Python child (launcher agents, DataLoader workers, compile
workers, resource trackers); those must stay as they are.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from glideslope import env

INSTRUMENTATION = "glideslope"
_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "srun"})
_LAUNCHER_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "torch.distributed.elastic",
    "accelerate.commands",
    "deepspeed.launcher",
    "pip",
    "uv",
    "glideslope",
)
_CHILD_MARKS = ("--multiprocessing-fork", "from multiprocessing.", "torch._inductor.compile_worker")


def _launcher(argv: Sequence[str], environ: Mapping[str, str] | None) -> bool:
    if env.RANK.get(environ) >= 0:
        return False
    words = list(argv[1:])
    if "-m" in words:
        module = words[words.index("-m") + 1 : words.index("-m") + 2]
        if module and any(module[0] == name or module[0].startswith(name + ".") for name in _LAUNCHER_MODULES):
            return True
    script = next((word for word in words if not word.startswith("-")), "")
    return PurePath(script).name in _LAUNCHERS


def hooks_are_disabled(environ: Mapping[str, str] | None = None) -> bool:
    """Whether OpenTelemetry's own switch keeps our hooks out of torch; what a script logs by hand goes on."""
    disabled = env.OTEL_PYTHON_DISABLED_INSTRUMENTATIONS.get(environ)
    return INSTRUMENTATION in disabled or "*" in disabled


def reason_to_stay_out(
    environ: Mapping[str, str] | None = None, argv: Sequence[str] | None = None, *, child: bool | None = None
) -> str | None:
    """Say why this process is not instrumented, or None when it is to be.

    `argv` is the original command line (default `sys.orig_argv`), `child` whether multiprocessing started this process.
    """
    argv = sys.orig_argv if argv is None else argv
    if env.OTEL_SDK_DISABLED.get(environ):
        return "OTEL_SDK_DISABLED is true"
    if hooks_are_disabled(environ):
        return "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS names it"
    if multiprocessing.parent_process() is not None if child is None else child:
        return "a child of multiprocessing"
    if any(mark in word for word in argv for mark in _CHILD_MARKS):
        return "a worker process"
    if _launcher(argv, environ):
        return "a launcher: its ranks are instrumented, not itself"
    active = env.GLIDESLOPE_ACTIVE.get(environ)
    if active and active != str(os.getpid()):
        return f"a child of the instrumented process {active}"
    return None
