# SPDX-License-Identifier: Apache-2.0
"""Make hostile text safe before it becomes a label, an attribute or a log line.

In: any str. Out: str that encodes as UTF-8, without control or bidirectional-override characters, of bounded size.
Imports nothing of glideslope.
"""

from __future__ import annotations

import re
from collections.abc import Container
from hashlib import blake2b

LABEL_BYTES = 1024
"""Longest label value in UTF-8 bytes; VictoriaMetrics ignores a series whose label value exceeds 4 KiB."""
BODY_BYTES = 8192
"""Longest log body in UTF-8 bytes."""
TEXT_BYTES = 65_536
"""Longest text that a person logs, in UTF-8 bytes; VictoriaLogs refuses records of more than 256 KiB."""

_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[\t\n\r{_CONTROL}{_BIDI}\u2028\u2029\ud800-\udfff]")
_UNSAFE_LINES = re.compile(f"[{_CONTROL}{_BIDI}\ud800-\udfff]")


def _cut(text: str, limit: int) -> str:
    return text.encode("utf-8")[:limit].decode("utf-8", "ignore")


def safe_label(text: str) -> str:
    """Return `text` as a label value: unsafe characters become U+FFFD, more than 1 KiB is cut.

    A changed value ends in `~` and 16 hex digits of its own hash, so that different values stay different.
    """
    if text.isascii() and text.isprintable() and 0 < len(text) <= LABEL_BYTES:
        return text
    if not text:
        return "(empty)"
    clean = _UNSAFE.sub("\ufffd", text)
    if clean == text and len(clean.encode("utf-8")) <= LABEL_BYTES:
        return text
    return _marked(clean, text)


def distinct_label(text: str, used: Container[str]) -> str:
    """Return `text` as a label value that is not in `used`: a name may look like what another one was made into."""
    label, salt = safe_label(text), 0
    while label in used:
        salt += 1
        label = _marked(_UNSAFE.sub("\ufffd", text), f"{salt}|{text}")
    return label


def _marked(clean: str, original: str) -> str:
    digest = blake2b(original.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{_cut(clean, LABEL_BYTES - 17)}~{digest}"


def safe_body(text: str, limit: int = BODY_BYTES) -> str:
    """Return `text` as a log body: lines and tabs stay, other control characters become U+FFFD.

    A text of more than `limit` bytes is cut and says so.
    """
    clean = _UNSAFE_LINES.sub("\ufffd", text)
    size = len(clean.encode("utf-8"))
    if size <= limit:
        return clean
    mark = f" … (cut: {size} bytes)"
    return _cut(clean, limit - len(mark.encode("utf-8"))) + mark
