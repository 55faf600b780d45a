# SPDX-License-Identifier: Apache-2.0
"""Pages of DCGM exporter (Prometheus text format): read whatever is in the field, write exactly what it writes.

In: the text of `/metrics`. Out: samples with blanks left out and counted. Made for what exporters really send: labels
whose quotes are not escaped, either spelling of host and field names, blank numbers, other exporters' series.
Imports errors and fields only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from glideslope.errors import PageError
from glideslope.gpu.fields import canonical, is_blank_text, without_blank

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
# A quote ends a value only where the next label or the end follows: DCGM exporter escapes nothing.
_END = r'\s*(?:,\s*(?:[A-Za-z_][A-Za-z0-9_]*\s*=\s*"|$)|$)'
_LABEL = re.compile(rf'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.|"(?!{_END}))*)"\s*')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}
_MAX_PAGE = 64 << 20
_MAX_LINE = 64 << 10


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a page."""

    name: str
    """In the spelling of `fields.FIELDS` where it is one of those."""
    labels: Mapping[str, str]
    value: float

    @property
    def uuid(self) -> str:
        """UUID of the GPU (of the parent GPU for a MIG instance), empty on NVSwitch and CPU series."""
        return self.labels.get("UUID") or self.labels.get("uuid") or self.labels.get("gpu_uuid") or ""

    @property
    def hostname(self) -> str:
        """Host as the exporter names it; may be absent, or `localhost`."""
        return self.labels.get("Hostname") or self.labels.get("hostname") or ""

    @property
    def instance(self) -> str:
        """MIG instance id, empty for a whole GPU."""
        return self.labels.get("GPU_I_ID", "")


@dataclass(frozen=True, slots=True)
class Page:
    """What a page held."""

    samples: tuple[Sample, ...]
    kinds: Mapping[str, str]
    """Type by name: `gauge`, `counter`, …"""
    helps: Mapping[str, str]
    blanks: int = 0
    """Samples left out because DCGM said that it has no value."""
    problems: tuple[str, ...] = field(default=())
    """Lines that could not be read, when `parse_page` was told to go on."""

    def values(self, name: str) -> dict[str, float]:
        """Value of one field by GPU UUID; with MIG, by `UUID/instance`."""
        return {
            f"{sample.uuid}/{sample.instance}" if sample.instance else sample.uuid: sample.value
            for sample in self.samples
            if sample.name == name and sample.uuid
        }


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    text, position = text.strip(), 0
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None:
            raise ValueError('labels are not name="value" pairs')
        value = _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[0]), match[2])
        if not is_blank_text(value):
            labels[match[1]] = value
        position = match.end()
        if position < len(text):
            if text[position] != ",":
                raise ValueError("labels are not separated by commas")
            position += 1
    return labels


def _sample(line: str) -> Sample:
    name = _NAME.match(line)
    if name is None:
        raise ValueError("it does not begin with a metric name")
    rest = line[name.end() :].lstrip()
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        close = rest.rfind("}")
        if close < 0:
            raise ValueError("its labels do not end")
        labels, rest = _labels(rest[1:close]), rest[close + 1 :]
    parts = rest.split()
    if not 1 <= len(parts) <= 2:
        raise ValueError("it does not end in one value")
    spelling, factor = canonical(name[0])
    return Sample(spelling, labels, float(parts[0]) * factor)


def parse_page(page: str | bytes, *, skip_malformed: bool = False) -> Page:
    """Read a page.

    Raises PageError that names the line when one cannot be read, unless `skip_malformed`, which lists it in
    `problems`; and always for a page that is HTML, not text, or larger than 64 MiB.
    """
    if len(page) > _MAX_PAGE:
        raise PageError(f"the page holds {len(page)} bytes, more than any GPU exporter sends: is the address right?")
    if isinstance(page, bytes):
        try:
            page = page.decode("utf-8")
        except UnicodeDecodeError as error:
            raise PageError(f"the page is not text ({error}): is the address right?") from None
    if page.lstrip()[:1] == "<":
        raise PageError("the page is HTML, not metrics: ask for /metrics of the exporter")
    samples: list[Sample] = []
    kinds: dict[str, str] = {}
    helps: dict[str, str] = {}
    problems: list[str] = []
    blanks = 0
    for number, line in enumerate(page.split("\n"), 1):
        line = line.strip()
        if not line:
            continue
        if line.startswith("#"):
            words = line[1:].split(None, 2)
            if len(words) >= 2 and words[0] in ("HELP", "TYPE"):
                (helps if words[0] == "HELP" else kinds)[canonical(words[1])[0]] = words[2] if len(words) > 2 else ""
            continue
        try:
            if len(line) > _MAX_LINE:
                raise ValueError(f"it is {len(line)} characters long")
            sample = _sample(line)
        except ValueError as error:
            problem = f"line {number} of the page cannot be read, {error}: {line[:120]!r}"
            if not skip_malformed:
                raise PageError(problem) from None
            problems.append(problem)
            continue
        if without_blank(sample.value) is None:
            blanks += 1
        else:
            samples.append(sample)
    return Page(tuple(samples), kinds, helps, blanks, tuple(problems))


def format_value(value: float | int) -> str:
    """Spell a value as DCGM exporter does: integers plain, doubles with six decimals."""
    return str(value) if isinstance(value, int) else f"{value:.6f}"


def format_page(families: Iterable[tuple[str, str, str, Iterable[tuple[Mapping[str, str], float | int]]]]) -> str:
    """Write a page as DCGM exporter does.

    `families` are (name, kind, help, [(labels, value), …]); labels keep their order. An int is written without
    decimals. Raises PageError for NaN and infinity, which no field of DCGM can hold.
    """
    lines = []
    for name, kind, text, samples in families:
        lines.append(f"# HELP {name} {text}")
        lines.append(f"# TYPE {name} {kind}")
        for labels, value in samples:
            if not math.isfinite(value):
                raise PageError(f"{name}={value} cannot be written: leave the series out instead")
            pairs = ",".join(f'{key}="{content}"' for key, content in labels.items())
            lines.append(f"{name}{{{pairs}}} {format_value(value)}")
    return "\n".join(lines) + "\n"
