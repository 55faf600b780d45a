# SPDX-License-Identifier: Apache-2.0
"""The native programs as files: found by environment or PATH, else built once and kept by the hash of their inputs.

In: a recipe and $GLIDESLOPE_HOME. Out: the path of an executable. Runs `go`; imports env, config, errors, stack.
A build writes only under $GLIDESLOPE_HOME and the Go caches. Two builders take turns through a file lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from glideslope import env
from glideslope.config import Home
from glideslope.errors import StackError
from glideslope.stack.assets import stack_file
from glideslope.stack.recipes import Recipe

_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_BARE_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """What a build is doing: `waiting` for another builder, or `compiling` with the packages compiled so far."""

    program: str
    phase: str
    packages: int = 0


OnProgress = Callable[[BuildProgress], None]


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Go compiler."""

    path: str
    version: str
    target: str
    fixed: bool
    """True when GOTOOLCHAIN=local: it may not fetch a newer compiler by itself."""

    @property
    def release(self) -> tuple[int, ...]:
        """Version as numbers, (1, 26, 8)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])


def toolchain() -> Toolchain:
    """Return the Go compiler on PATH; raises StackError that says what to install."""
    go = shutil.which("go")
    if go is None:
        raise StackError("Go is needed to build the stack and is not on PATH: install Go 1.26 or newer")
    answer = subprocess.run(
        [go, "env", "-json", "GOVERSION", "GOOS", "GOARCH", "GOTOOLCHAIN"], capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise StackError(f"`{go} env` failed: {answer.stderr.strip()[-500:]}")
    told = json.loads(answer.stdout)
    return Toolchain(go, told["GOVERSION"], f"{told['GOOS']}/{told['GOARCH']}", told["GOTOOLCHAIN"] == "local")


def fingerprint(recipe: Recipe, go: Toolchain) -> str:
    """Hash (12 hex digits) of everything that decides the binary: sources, go.mod, go.sum, flags, compiler."""
    digest = hashlib.sha256()
    digest.update(
        repr(
            (go.version, go.target, recipe.package, recipe.tags, recipe.ldflags, sorted(recipe.added.items()))
        ).encode()
    )
    folder = _folder(recipe)
    for source in _sources(folder):
        digest.update(source.relative_to(folder).as_posix().encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:12]


def _folder(recipe: Recipe) -> Path:
    return stack_file(*recipe.folder.split("/"))


def _sources(folder: Path) -> list[Path]:
    return [folder / "go.mod", folder / "go.sum", *sorted(folder.rglob("*.go"))]


def fits(recipe: Recipe, path: str) -> str | None:
    """Return None when the binary's `--version` has the pinned major.minor, else what is wrong with it."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not answer --version ({error})"
    text = answer.stdout + answer.stderr
    match = _VERSION.search(text) or _BARE_VERSION.search(text)
    wanted = recipe.version.split(".")[:2]
    if match is None:
        return "its --version names no version"
    if list(match.groups()[:2]) != wanted:
        return f"it is version {'.'.join(match.groups())}, and {'.'.join(wanted)} is needed"
    return None


def provided(recipe: Recipe) -> Path | None:
    """Return a binary that the machine already has: named by GLIDESLOPE_BIN_<PROGRAM>, or on PATH and fitting.

    Raises StackError when the variable names a binary that cannot be used; on PATH, one that misfits is passed over.
    """
    variable = env.binary_override(recipe.program)
    named = variable.get()
    if named:
        trouble = fits(recipe, named)
        if trouble:
            raise StackError(f"{variable.name}={named} cannot be used: {trouble}; unset the variable to build it")
        return Path(named)
    found = shutil.which(recipe.program)
    return Path(found) if found and fits(recipe, found) is None else None


def built(recipe: Recipe, home: Home, go: Toolchain) -> Path | None:
    """Return the binary built from exactly these inputs, if it is there."""
    path = home.bin / f"{recipe.program}-{fingerprint(recipe, go)}"
    return path if os.access(path, os.X_OK) else None


def ensure(
    recipe: Recipe, home: Home, on_progress: OnProgress | None = None, cancelled: threading.Event | None = None
) -> Path:
    """Return an executable of the program, building it when there is none.

    `on_progress` is called now and then during a build; setting `cancelled` stops it. Raises StackError when Go is
    missing or too old, when modules cannot be fetched, when the build fails (with its last lines) or was cancelled.
    """
    ready = provided(recipe)
    if ready is not None:
        return ready
    go = toolchain()
    ready = built(recipe, home, go)
    if ready is not None:
        return ready
    _check_release(recipe, go)
    report = on_progress or (lambda _: None)
    stop = cancelled or threading.Event()
    home.bin.mkdir(parents=True, exist_ok=True)
    with _turn(home, recipe, report, stop):
        return built(recipe, home, go) or _build(recipe, home, go, report, stop)


def _check_release(recipe: Recipe, go: Toolchain) -> None:
    text = (_folder(recipe) / "go.mod").read_text("utf-8")
    directive = re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?", text, re.MULTILINE)
    needed = tuple(int(part or 0) for part in directive.groups()) if directive else ()
    if go.fixed and go.release < needed:
        raise StackError(
            f"{recipe.program} needs Go {'.'.join(map(str, needed))} and {go.path} is {go.version}: "
            "install a newer Go, or set GOTOOLCHAIN=auto so that it fetches one"
        )


@contextmanager
def _turn(home: Home, recipe: Recipe, report: OnProgress, stop: threading.Event) -> Iterator[None]:
    """Hold the build lock: one `go build` at a time uses all cores already, two only fight for memory."""
    with (home.bin / ".build.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                report(BuildProgress(recipe.program, "waiting"))
            if stop.wait(_POLL_S):
                raise StackError(f"the build of {recipe.program} was cancelled")
        yield


def _build(recipe: Recipe, home: Home, go: Toolchain, report: OnProgress, stop: threading.Event) -> Path:
    target = home.bin / f"{recipe.program}-{fingerprint(recipe, go)}"
    folder = home.root / "build" / recipe.program
    log = home.log / f"build-{recipe.program}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = _folder(recipe)
    for source in _sources(sources):
        copy = folder / source.relative_to(sources)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, copy)
    log.write_bytes(b"")
    report(BuildProgress(recipe.program, "compiling"))
    try:
        if recipe.patched_module:
            _patch(recipe, folder, go, log)
        unfinished = folder / "binary"
        command = ["nice", "-n", "5"] if shutil.which("nice") else []
        command += [go.path, "build", "-v", "-trimpath", "-ldflags", recipe.ldflags]
        command += ["-tags", recipe.tags] if recipe.tags else []
        _compile([*command, "-o", str(unfinished), recipe.package], recipe, folder, log, report, stop)
        os.replace(unfinished, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return target


def _patch(recipe: Recipe, folder: Path, go: Toolchain, log: Path) -> None:
    """Copy the module out of the read-only cache, add the files it lacks, and point go.mod at the copy."""
    listed = _go([go.path, "mod", "download", "-json", recipe.patched_module], recipe, folder, log)
    copy = folder / "patched"
    shutil.copytree(json.loads(listed)["Dir"], copy, copy_function=shutil.copyfile)
    for name in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        name.chmod(0o755)
    for relative, content in recipe.added.items():
        added = copy / relative
        added.parent.mkdir(parents=True, exist_ok=True)
        added.write_text(content, "utf-8")
    _go([go.path, "mod", "edit", "-replace", f"{recipe.patched_module}=./patched"], recipe, folder, log)


def _go(command: list[str], recipe: Recipe, folder: Path, log: Path) -> str:
    answer = subprocess.run(command, cwd=folder, env=_go_environment(), capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        log.write_text(answer.stdout + answer.stderr, "utf-8")
        raise _failure(recipe, log)
    return answer.stdout


def _go_environment() -> dict[str, str]:
    # A go.work above the home folder would change which modules are built.
    return env.environment() | {"GOWORK": "off"}


def _compile(
    command: list[str], recipe: Recipe, folder: Path, log: Path, report: OnProgress, stop: threading.Event
) -> None:
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_go_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        while process.poll() is None:
            if stop.wait(_POLL_S):
                raise StackError(f"the build of {recipe.program} was cancelled")
            report(BuildProgress(recipe.program, "compiling", log.read_bytes().count(b"\n")))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            _reap(process)
    if process.returncode != 0:
        raise _failure(recipe, log)


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failure(recipe: Recipe, log: Path) -> StackError:
    lines = log.read_text("utf-8", "replace").splitlines()[-15:]
    signs = ("dial tcp", "i/o timeout", "connection refused", "403 Forbidden", "404 Not Found", "no such host")
    fetching = any(sign in line for line in lines for sign in signs)
    remedy = "check that Go modules can be fetched (`go env GOPROXY`)" if fetching else f"the whole log is {log}"
    return StackError(f"{recipe.program} could not be built; {remedy}. Last lines:\n  " + "\n  ".join(lines))
