# SPDX-License-Identifier: Apache-2.0
"""Trace and span ids that all ranks compute alike, so that they share one trace per step without talking.

In: run, attempt, step. Out: ids. Imports nothing of glideslope.
"""

from __future__ import annotations

from hashlib import blake2b


def trace_id(run: str, attempt: int | str, step: int) -> bytes:
    """16 bytes: blake2b-128 of run|attempt|step."""
    return blake2b(f"{run}|{attempt}|{step}".encode(), digest_size=16).digest()


def span_id(run: str, attempt: int | str, step: int, part: str) -> bytes:
    """8 bytes: blake2b-64 of run|attempt|step|part; `part` is `root`, or names a rank and a phase."""
    return blake2b(f"{run}|{attempt}|{step}|{part}".encode(), digest_size=8).digest()


def chosen(run: str, attempt: int | str, step: int, one_in: int) -> bool:
    """Whether head sampling keeps a step; the answer is the same on every rank."""
    return one_in > 0 and int.from_bytes(trace_id(run, attempt, step)[:8], "little") % one_in == 0
