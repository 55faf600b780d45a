# SPDX-License-Identifier: Apache-2.0
"""The one session of this process, however it came about: by an instrumentor, by `init`, again after a fork.

In: the environment and what `init` was given. Out: a `Session`. Imports its neighbours, config and env.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from dataclasses import replace

from glideslope import env
from glideslope.capture.ranks import process_group
from glideslope.config import Capture, Export, Home
from glideslope.run.gate import hooks_are_disabled, reason_to_stay_out
from glideslope.run.identity import Identity, identify, next_attempt, read_parent
from glideslope.run.session import Session

_log = logging.getLogger("glideslope")


class _Process:
    """What this process has."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.run: object = None
        """The `Run` over it, kept by `facade`."""
        self.lock = threading.RLock()


process = _Process()


def instrument() -> Session | None:
    """The session of a process that is instrumented without its script's doing; None where that must not be.

    Raises ConfigError when the environment cannot be honoured.
    """
    with process.lock:
        found = process.session
        if found is None or found.over:
            reason = reason_to_stay_out()
            if reason is not None:
                _log.debug("not instrumented: %s", reason)
                return None
            found = process.session = _session(identify())
        found.start()
        return found


def adopt(name: str | None, run_id: str | None) -> Session:
    """The session of a process whose script asks for it: the one that is there, or a new one; it is not opened yet.

    Raises ConfigError when `run_id` or the environment cannot be honoured.
    """
    with process.lock:
        found = process.session
        if found is None or found.over:
            found = process.session = _session(_identity(name, run_id))
            found.start(hooks=not hooks_are_disabled())
        elif not found.live:
            wanted = _identity(name, run_id)
            found.identity = replace(wanted, run_id=found.identity.run_id) if run_id is None else wanted
        else:
            _say_where_it_differs(found.identity, name, run_id)
        return found


def _session(identity: Identity) -> Session:
    return Session(identity, capture=Capture.from_env(), export=Export.from_env(), home=Home.from_env())


def _identity(name: str | None, run_id: str | None) -> Identity:
    """Who this process is when its script says so; launchers and GLIDESLOPE_RUN_* win over the script."""
    environ = env.environment()
    child = multiprocessing.parent_process() is not None
    number = _child_number() if child else 0
    parent = read_parent(env.GLIDESLOPE_ACTIVE_RUN.get(environ)) if child else None
    if parent is not None and run_id in (None, parent.run_id):
        environ[env.GLIDESLOPE_RUN_ID.name] = parent.run_id
        environ[env.GLIDESLOPE_RUN_ATTEMPT.name] = str(parent.attempt)
        environ[env.TORCHELASTIC_RESTART_COUNT.name] = "0"
        name = name or parent.run_name
    else:
        parent = None
    given = env.GLIDESLOPE_RUN_ID.get(environ)
    if run_id and not given:
        environ[env.GLIDESLOPE_RUN_ID.name] = run_id
    elif run_id and given != run_id:
        _log.warning(
            "glideslope: the run id %r of init() is not used: the launcher set GLIDESLOPE_RUN_ID=%s", run_id, given
        )
    if name and not env.GLIDESLOPE_RUN_NAME.get(environ):
        environ[env.GLIDESLOPE_RUN_NAME.name] = name
    found = identify(environ)
    group = process_group()
    if group is not None:
        return replace(found, rank=group[0], world_size=group[1])
    if not child:
        alone = found.world_size == 1 and env.GLIDESLOPE_RUN_ATTEMPT.get(environ) < 0
        if alone and env.GLIDESLOPE_RUN_ID.get(environ):
            attempt = max(found.attempt, next_attempt(Home.from_env(), found.run_id))
            return replace(found, attempt=attempt)
        return found
    if parent is None:
        return found if env.RANK.get(environ) >= 0 else replace(found, rank=max(0, number - 1))
    if env.RANK.get(environ) in (-1, parent.env_rank):
        # A helper of a rank, not a rank of its own: it gets a number beyond those of the ranks.
        return replace(found, rank=found.world_size * number + parent.rank)
    return found


def _child_number() -> int:
    """Which child of its parent this is, from 1, as multiprocessing counts them."""
    numbers = getattr(multiprocessing.current_process(), "_identity", ())
    return int(numbers[-1]) if numbers else 1


def _say_where_it_differs(identity: Identity, name: str | None, run_id: str | None) -> None:
    for what, asked, is_ in (("run_id", run_id, identity.run_id), ("name", name, identity.run_name)):
        if asked is not None and asked != is_:
            _log.warning(
                "glideslope: init(%s=%r) changes nothing: this process records run %s (%s); close() that run first",
                what,
                asked,
                identity.run_id,
                identity.run_name,
            )


def _in_child() -> None:
    process.lock = threading.RLock()
    if process.session is not None:
        process.session.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
