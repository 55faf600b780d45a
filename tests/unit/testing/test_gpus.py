# SPDX-License-Identifier: Apache-2.0
"""Simulated GPUs: the page's format, their inertia, and each source of their load."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from glideslope.errors import ConfigError
from glideslope.gpu import FIELDS, parse_page
from glideslope.store.victoria import Series, Victoria
from glideslope.testing import Load, SimulatedGpu, SimulatedGpus, dcgm_page
from glideslope.testing.load import LoadFromStore, load_from_file, load_from_processes

UUIDS = ["GPU-51a1u1a7-0000-4000-8000-000000000000", "GPU-51a1u1a7-0000-4000-8000-000000000001"]
# The line of the exporter's own template: label order, no timestamp, integers plain, doubles with six decimals.
LINE = re.compile(
    r'DCGM_[A-Z_]+\{gpu="\d+",UUID="GPU-[^"]+",pci_bus_id="[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d",device="nvidia\d+",'
    r'modelName="[^"]+",(hostname|Hostname)="n1",DCGM_FI_DRIVER_VERSION="[^"]+"'
    r'(,err_code="\d+",err_msg="[^"]+")?,gpu_simulated="true"\} (\d+|\d+\.\d{6})'
)


def two(load: Load) -> list[SimulatedGpu]:
    gpus = [SimulatedGpu(index, uuid) for index, uuid in enumerate(UUIDS)]
    for gpu in gpus:
        gpu.advance(600, load)
    return gpus


@pytest.mark.parametrize("old", [False, True])
def test_every_line_has_the_form_of_dcgm_exporter(old: bool) -> None:
    page = dcgm_page(two(Load(0.9, 1000, 79)), hostname="n1", old_host_label=old)
    lines = page.splitlines()
    names = []
    for line in lines:
        if line.startswith("# HELP"):
            names.append(line.split()[2])
        elif not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match is not None, line
            assert match[1] == ("Hostname" if old else "hostname")
            assert line.startswith(names[-1] + "{")
    assert len(names) == len(set(names))
    assert set(names) <= {field.name for field in FIELDS}
    assert page.endswith("\n")


def test_the_page_reads_back_with_run_and_marks() -> None:
    page = parse_page(dcgm_page(two(Load(0.5, 2000, 45)), hostname="n1"))
    assert page.values("DCGM_FI_DEV_GPU_UTIL") == dict.fromkeys(UUIDS, 50.0)
    assert page.values("DCGM_FI_DEV_FB_USED") == dict.fromkeys(UUIDS, 2004.0)
    assert all(sample.labels["gpu_simulated"] == "true" for sample in page.samples)
    assert all(sample.labels["modelName"].endswith("(simulated)") for sample in page.samples)
    (first, _) = [sample for sample in page.samples if sample.name == "DCGM_FI_DEV_XID_ERRORS"]
    assert (first.value, first.labels["err_code"]) == (45, "45")


def test_a_field_can_be_blank_as_old_exporters_print_it() -> None:
    text = dcgm_page(two(Load()), blank=["DCGM_FI_DEV_MEMORY_TEMP"])
    assert text.count("} 9223372036854775794\n") == 2
    assert parse_page(text).values("DCGM_FI_DEV_MEMORY_TEMP") == {}


def test_heat_and_power_follow_the_load_with_inertia() -> None:
    gpu = SimulatedGpu(0, UUIDS[0])
    idle = gpu.temperature
    gpu.advance(1, Load(1.0))
    soon = gpu.temperature
    gpu.advance(600, Load(1.0))
    hot = gpu.temperature
    assert idle < soon < idle + 10 < hot < 80
    assert 600 < gpu.power < 700
    gpu.advance(600, Load(0.0))
    assert abs(gpu.temperature - idle) < 1
    assert gpu.energy_mj > 600 * 600 * 1000


@pytest.mark.parametrize("activity", [-1.0, 5.0])
def test_a_load_beyond_its_range_is_held(activity: float) -> None:
    values = two(Load(activity, 1e9))[0].values()
    assert values["DCGM_FI_DEV_GPU_UTIL"] in (0, 100)
    assert values["DCGM_FI_DEV_FB_FREE"] == 0


def test_the_page_is_served() -> None:
    with SimulatedGpus(UUIDS, lambda uuid: Load(0.25)) as served:
        answer = httpx.get(served.url)
        assert answer.headers["content-type"].startswith("text/plain")
        assert parse_page(answer.content).values("DCGM_FI_DEV_GPU_UTIL") == dict.fromkeys(UUIDS, 25.0)
        assert httpx.get(served.url.replace("metrics", "other")).status_code == 404


def test_what_is_no_uuid_is_refused() -> None:
    with pytest.raises(ConfigError, match="no GPU UUID"):
        SimulatedGpus(["first"])


def test_the_load_can_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "load.json"
    load = load_from_file(path)
    assert load(UUIDS[0]) == Load()
    path.write_text(json.dumps({UUIDS[0]: {"activity": 0.75, "memory_mib": 10, "xid": 31}}))
    assert load(UUIDS[0]) == Load(0.75, 10, 31)
    assert load(UUIDS[1]) == Load()
    for damaged in ("", "[]", '{"x', json.dumps({UUIDS[0]: 1}), json.dumps({UUIDS[0]: {"activity": "much"}})):
        path.write_text(damaged)
        assert load(UUIDS[0]) == Load()


def test_the_load_can_come_from_the_processes_of_a_rank() -> None:
    own = [f"GPU-{os.getpid()}-{rank}" for rank in (0, 1)]
    environ = {**os.environ, "GLIDESLOPE_GPU_UUIDS": ",".join(own), "LOCAL_RANK": "1"}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"], env=environ) as spinning:
        try:
            load = load_from_processes()
            deadline = time.monotonic() + 20
            while (found := load(own[1])).activity < 0.1 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert found.activity >= 0.1
            assert found.memory_mib > 1
            assert load(own[0]) == Load()
        finally:
            spinning.kill()


def test_the_load_can_come_from_the_ranks_own_series(victoria_url: str) -> None:
    now = time.time_ns() // 1_000_000
    run = {"run_id": "load", "run_attempt": "0"}

    def series(name: str, value: float, rank: int, **labels: str) -> Series:
        return Series({"__name__": name, **run, "dist_rank": str(rank), **labels}, (now,), (value,))

    with Victoria(victoria_url) as store:
        for rank, compute in enumerate((0.06, 0.02)):
            store.import_lines(
                [
                    series("train_rank_info", 1, rank, hw_id=UUIDS[rank]),
                    series("train_step_duration_seconds", 0.1, rank),
                    series("train_phase_duration_seconds", compute, rank, phase="forward"),
                    series("train_phase_duration_seconds", compute / 2, rank, phase="backward"),
                    series("train_phase_duration_seconds", 0.5, rank, phase="data"),
                    series("process_memory_usage_bytes", 300 << 20, rank),
                ]
            )
        store.flush()
    load = LoadFromStore(victoria_url, "load")
    other = LoadFromStore(victoria_url, "other")
    try:
        load.refresh()
        other.refresh()
        assert load(UUIDS[0]) == Load(pytest.approx(0.9), 300.0)
        assert load(UUIDS[1]) == Load(pytest.approx(0.3), 300.0)
        assert other(UUIDS[0]) == Load()
    finally:
        load.close()
        other.close()


def test_a_store_that_is_down_means_idle() -> None:
    load = LoadFromStore("http://127.0.0.1:1")
    assert load(UUIDS[0]) == Load()
    load.close()


def test_the_command_serves_until_it_is_told_to_stop() -> None:
    command = [sys.executable, "-m", "glideslope.testing", "gpus", "--uuids", ",".join(UUIDS), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.fullmatch(r"Serving 2 simulated GPUs on (\S+)\n", process.stdout.readline())
            assert found is not None
            assert len(parse_page(httpx.get(found[1], timeout=20).content).values("DCGM_FI_DEV_GPU_TEMP")) == 2
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()


def test_the_command_says_what_is_wrong() -> None:
    command = [sys.executable, "-m", "glideslope.testing", "gpus", "--uuids", "nonsense", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.startswith("glideslope.testing: 'nonsense' is no GPU UUID")) == (1, True)
