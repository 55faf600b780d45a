# SPDX-License-Identifier: Apache-2.0
"""Tables in docs/benchmarks.md: between two marks stands what a program printed, and nothing else.

In: rows. Out: Markdown, the document with it, and what is wrong with a document. Imports the standard library only.
"""

import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def machine() -> str:
    """Cores, processor and interpreter; no name, no date."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    model = found[1] if found else platform.machine()
    return f"{os.cpu_count()} cores, {model}, {platform.system()}, Python {platform.python_version()}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are aligned to the right."""
    lines = [columns, ["---"] + ["---:"] * (len(columns) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def columns_of(text: str) -> list[list[str]]:
    """The columns of each table in a text."""
    heads = re.findall(r"^\|(.+)\|\n\| ---", text, re.MULTILINE)
    return [[cell.strip() for cell in head.split("|")] for head in heads]


def block(mark: str, text: str) -> str | None:
    """What stands between the marks, or None."""
    found = re.search(rf"<!-- {mark}: .*?-->\n(.*?)\n<!-- end of {mark} -->", text, re.DOTALL)
    return found[1].strip() if found else None


def write(mark: str, command: str, body: str, path: Path = DOCUMENT) -> None:
    """Put a program's output between its marks.

    Raises ValueError when the document lacks the marks.
    """
    text = path.read_text("utf-8")
    if block(mark, text) is None:
        raise ValueError(f"{path.name} has no marks '<!-- {mark}: … -->' and '<!-- end of {mark} -->': add them")
    fresh = f"<!-- {mark}: written by `{command}`, do not edit -->\n{body}\n<!-- end of {mark} -->"
    text = re.sub(rf"<!-- {mark}: .*?<!-- end of {mark} -->", lambda _: fresh, text, flags=re.DOTALL)
    path.write_text(text, "utf-8")


def faults(mark: str, columns: Sequence[Sequence[str]], words: Sequence[str], path: Path = DOCUMENT) -> list[str]:
    """What keeps the block from being of the program's form: other columns, or words (versions) that are not there."""
    found = block(mark, path.read_text("utf-8"))
    if found is None:
        return [f"{path.name} has no block '{mark}'"]
    said = [] if columns_of(found) == [list(row) for row in columns] else [f"{mark}: the columns are others"]
    return said + [f"{mark}: {word!r} is missing" for word in words if word not in found]
