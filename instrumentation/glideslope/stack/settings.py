# SPDX-License-Identifier: Apache-2.0
"""The state folder and the config files of the stack: one set of variables, one function that fills them in.

In: Home, Ports and the shipped files. Out: $GLIDESLOPE_HOME/config, the token. Imports config, errors, assets.
Config files name `${GLIDESLOPE_HOME}`, `${PORT_OTLP_HTTP}`, …; the collector and Jaeger read the same variables
themselves as `${env:PORT_OTLP_HTTP}`, so their files need no copy. `python -m glideslope.stack.settings` prepares a
home for the Docker stack, with the ports of the environment.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import socket
from dataclasses import fields
from pathlib import Path

from glideslope.config import LOOPBACK, Home, Ports
from glideslope.errors import StackError
from glideslope.stack.assets import stack_file

_PLACEHOLDER = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


def variables(home: Home, ports: Ports, listen: str = LOOPBACK) -> dict[str, str]:
    """Every variable that a config file of the stack may name, with its value.

    `listen` is the address that programs bind: loopback natively, all addresses of the private network namespace
    in Docker. Ports are `PORT_<NAME>` with the field names of `config.Ports`; addresses to connect to are loopback.
    """
    return {
        "GLIDESLOPE_HOME": str(home.root),
        "GLIDESLOPE_TOKEN_FILE": str(home.token),
        "LISTEN": listen,
        "HOST_NAME": socket.gethostname(),
        "HOST_ROOT": "/",
        **{f"PORT_{port.name.upper()}": str(getattr(ports, port.name)) for port in fields(ports)},
        **{f"URL_{port.name.upper()}": ports.url(port.name) for port in fields(ports)},
    }


def fill(text: str, values: dict[str, str], source: str) -> str:
    """Replace each `${NAME}` in a config text; `source` names the file in the error.

    Raises StackError for a name that is not a variable of the stack. `${env:…}`, `$name` and `{{ }}` stay as they are.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            known = ", ".join(sorted(values))
            raise StackError(f"{source} names ${{{name}}}, which the stack does not know: use {known}")
        return values[name]

    return _PLACEHOLDER.sub(value, text)


def prepare(home: Home, ports: Ports) -> None:
    """Make the state folder: private folders, the token, config files with their variables filled in."""
    for folder in (home.root, home.bin, home.run, home.log, home.config, home.data):
        folder.mkdir(parents=True, exist_ok=True)
    # Runs, configs and the token are nobody else's business on a shared node.
    home.root.chmod(0o700)
    ensure_token(home)
    values = variables(home, ports)
    rules = home.config / "rules"
    shutil.rmtree(rules, ignore_errors=True)
    rules.mkdir()
    generated = stack_file("alerts", "generated")
    for source in sorted(generated.glob("*.yaml")):
        # vmalert reads every file of the folder, and Alertmanager's is not a rule file.
        target = home.config / source.name if source.stem == "alertmanager" else rules / source.name
        write_atomically(target, fill(source.read_text("utf-8"), values, str(source)))


def ensure_token(home: Home) -> Path:
    """Return the token file, made with 256 random bits and mode 0600 when there is none."""
    if home.token.exists():
        return home.token
    unfinished = home.token.with_name(f".token.{os.getpid()}")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(32))
    # A hard link appears complete or not at all, and the first of two makers wins.
    with contextlib.suppress(FileExistsError):
        os.link(unfinished, home.token)
    unfinished.unlink()
    return home.token


def write_atomically(path: Path, text: str) -> None:
    """Write a small file so that a reader sees the old text or the new text, never a part."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, "utf-8")
    os.replace(unfinished, path)


if __name__ == "__main__":
    prepare(Home.from_env(), Ports.from_env())
