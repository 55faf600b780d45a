# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.md is what the benchmark programs write, and the programs run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOGGING, DISK = ROOT / "tests/bench/logging/run.py", ROOT / "tests/bench/disk.py"
INGEST = ROOT / "tests/bench/ingest/run.py"
DOCUMENT = (ROOT / "docs/benchmarks.md").read_text("utf-8")


def ran(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("program", [LOGGING, DISK, INGEST], ids=["logging", "disk", "ingest"])
def test_the_tables_have_the_columns_and_versions_that_the_program_writes(program: Path) -> None:
    checked = ran(program, "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_tables_name_the_command_that_makes_them() -> None:
    for program in (LOGGING, DISK, INGEST):
        assert f"`.venv/bin/python {program.relative_to(ROOT)}`" in DOCUMENT


def test_the_document_names_no_machine_and_no_date() -> None:
    assert not re.search(r"/(home|root|work|tmp)\b|\b20[2-9]\d\b", DOCUMENT)


def test_the_readme_leads_to_the_tables() -> None:
    assert "docs/benchmarks.md" in (ROOT / "README.md").read_text("utf-8")


def test_the_logging_benchmark_times_and_kills_glideslope(tmp_path: Path) -> None:
    raw = tmp_path / "results.json"
    done = ran(LOGGING, "--quick", "--only", "glideslope", "glideslope-array", "--results", raw)
    assert done.returncode == 0, done.stderr
    results = json.loads(raw.read_text())
    timed = {(one["tool"], one["count"]): one for one in results if one["survived"] < 0}
    assert set(timed) == {(tool, n) for tool in ("glideslope", "glideslope-array") for n in (1, 100, 10_000)}
    for one in timed.values():
        assert min(one["paced_ns"] + one["rushed_ns"]) > 0
        assert one["paced_ns"] and one["rushed_ns"]
        assert one["disk_bytes"] > 4 * one["values"]
    assert [one["survived"] for one in results if one["survived"] >= 0] == [300, 300]
    assert "| glideslope, 10,000 values, median | ≤ 1,000 µs |" in done.stdout


def test_the_ingestion_benchmark_finds_every_point_in_the_store() -> None:
    done = ran(INGEST, "--quick")
    assert done.returncode == 0, done.stderr
    for form in ("relay", "pipeline", "pipeline and queue"):
        assert f"glideslope → collector ({form}) → VictoriaMetrics" in done.stdout
