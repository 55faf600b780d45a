# SPDX-License-Identifier: Apache-2.0
"""The tools to compare: their pinned versions (`peers.toml`) and an environment of its own for each.

In: the folder for the environments. Out: interpreters by tool. Needs `uv`; packages come through its ordinary settings.
"""

import hashlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from glideslope import __version__

PEERS: dict[str, dict] = tomllib.loads(Path(__file__).with_name("peers.toml").read_text("utf-8"))


def version(tool: str) -> str:
    """Name and version of the package that a tool is."""
    if tool in PEERS:
        return PEERS[tool]["package"].replace("==", " ")
    return "–" if tool == "control" else f"glideslope {__version__}"


def interpreter(tool: str, folder: Path) -> str:
    """The Python that runs a tool."""
    if tool not in PEERS:
        return sys.executable
    return str(folder / PEERS[tool]["environment"] / "bin" / "python")


def make_environments(tools: list[str], folder: Path) -> None:
    """Make what is missing; an environment is made anew when its list of packages changed."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    for name in sorted({PEERS[tool]["environment"] for tool in tools if tool in PEERS}):
        listed = [peer for peer in PEERS.values() if peer["environment"] == name]
        packages = sorted({package for peer in listed for package in (peer["package"], *peer["more"])})
        mark, wanted = folder / name / ".packages", hashlib.sha256("\n".join(packages).encode()).hexdigest()
        if mark.exists() and mark.read_text() == wanted:
            continue
        print(f"making the environment for {name}: {' '.join(packages)}", file=sys.stderr, flush=True)
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, folder / name], check=True)
        python = folder / name / "bin" / "python"
        subprocess.run([uv, "pip", "install", "-q", "--python", python, *packages], check=True)
        mark.write_text(wanted)
