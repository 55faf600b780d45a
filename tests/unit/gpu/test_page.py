# SPDX-License-Identifier: Apache-2.0
"""Exporter pages as they are found in the field."""

from __future__ import annotations

import math
import time

import pytest

from glideslope.errors import PageError
from glideslope.gpu.page import Sample, format_page, parse_page

# As DCGM exporter 3.3.7 prints it on a host in Kubernetes, with a field that the GPU does not have.
OLD = """# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-b9f9",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1",DCGM_FI_DRIVER_VERSION="550.127.08",container="c",err_code="79",err_msg="GPU has fallen off the bus",namespace="ns",pod="p"} 79
# HELP DCGM_FI_DEV_MEMORY_TEMP Memory temperature (in C).
# TYPE DCGM_FI_DEV_MEMORY_TEMP gauge
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-b9f9",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 9223372036854775794
# HELP DCGM_FI_PROF_DRAM_ACTIVE Ratio of cycles.
# TYPE DCGM_FI_PROF_DRAM_ACTIVE gauge
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-b9f9",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 0.371234
"""  # noqa: E501

NEW = """# HELP DCGM_FI_DEV_SM_CLOCK_HERTZ SM clock
# TYPE DCGM_FI_DEV_SM_CLOCK_HERTZ gauge
DCGM_FI_DEV_SM_CLOCK_HERTZ{gpu="0",UUID="GPU-b9f9",modelName="X",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",hostname="n1"} 1980000000
# TYPE DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL counter
DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{nvlink="3",gpu="0",gpu_uuid="GPU-b9f9",model_name="X",hostname="n1"} 12
# TYPE DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS gauge
DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS{nvswitch="1",hostname="n1"} 0
"""  # noqa: E501


def test_a_page_of_an_old_exporter_is_read_and_its_blank_left_out() -> None:
    page = parse_page(OLD)
    assert [sample.name for sample in page.samples] == ["DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_PROF_DRAM_ACTIVE"]
    xid = page.samples[0]
    assert (xid.value, xid.uuid, xid.hostname, xid.labels["err_msg"]) == (
        79,
        "GPU-b9f9",
        "n1",
        "GPU has fallen off the bus",
    )
    assert page.blanks == 1
    assert page.kinds["DCGM_FI_DEV_MEMORY_TEMP"] == "gauge"
    assert page.helps["DCGM_FI_DEV_XID_ERRORS"] == "Value of the last XID error encountered."


def test_a_page_of_a_new_exporter_comes_in_our_spelling_and_units() -> None:
    clock, link, switch = parse_page(NEW).samples
    assert (clock.name, clock.value, clock.instance) == ("DCGM_FI_DEV_SM_CLOCK", 1980.0, "7")
    assert (link.uuid, link.hostname) == ("GPU-b9f9", "n1")
    assert switch.uuid == ""


def test_values_are_told_apart_by_mig_instance() -> None:
    assert parse_page(NEW).values("DCGM_FI_DEV_SM_CLOCK") == {"GPU-b9f9/7": 1980.0}


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("m 1", {}, 1.0),
        ("m{} 1", {}, 1.0),
        ('m { a = "x" , b="y" , } 1 1700000000000', {"a": "x", "b": "y"}, 1.0),
        ('m{a="x,y=\\"z\\""} 1', {"a": 'x,y="z"'}, 1.0),
        ('m{a="say "hi" now",b="y"} 2', {"a": 'say "hi" now', "b": "y"}, 2.0),
        ('m{a="brace } inside",b="{"} 2', {"a": "brace } inside", "b": "{"}, 2.0),
        ('m{a="back\\\\slash\\nline"} 3', {"a": "back\\slash\nline"}, 3.0),
        ('m{a="",b="☃"} 3', {"a": "", "b": "☃"}, 3.0),
        ('m{a="<<<NOT_PERM>>>",b="<<<NULL>>>",c="x"} 1', {"c": "x"}, 1.0),
        ("m 1.5e-3\r", {}, 0.0015),
    ],
)
def test_odd_lines_are_read(line: str, labels: dict[str, str], value: float) -> None:
    assert parse_page(line).samples == (Sample("m", labels, value),)


@pytest.mark.parametrize("value", ["NaN", "+Inf"])
def test_what_no_field_can_hold_counts_as_blank(value: str) -> None:
    page = parse_page(f"m {value}\n")
    assert (page.samples, page.blanks) == ((), 1)


@pytest.mark.parametrize("line", ["m", "m{", 'm{a="x" 1', "m{a=x} 1", "m one", "m 1 2 3", "{} 1", '"m" 1', 'm{a="x} 1'])
def test_a_line_that_cannot_be_read_is_named(line: str) -> None:
    with pytest.raises(PageError, match="line 2"):
        parse_page(f"good 1\n{line}\n")


def test_the_rest_of_a_page_can_be_read_in_spite_of_it() -> None:
    page = parse_page('good 1\nbad{ 1\nm{a="x"} 2\n', skip_malformed=True)
    assert [sample.value for sample in page.samples] == [1.0, 2.0]
    assert len(page.problems) == 1


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<html>login</html>", "HTML"),
        (b"\xff\xfe\x00", "not text"),
        (b" " * ((64 << 20) + 1), "bytes"),
    ],
)
def test_what_is_no_page_is_refused(page: str | bytes, said: str) -> None:
    with pytest.raises(PageError, match=said):
        parse_page(page, skip_malformed=True)


@pytest.mark.parametrize("page", ["", "\n\n", "# only a comment\n", "#\n# HELP\n# TYPE m\n"])
def test_an_empty_page_holds_nothing(page: str) -> None:
    assert parse_page(page).samples == ()


@pytest.mark.parametrize(
    "line", ['m{a="' + '"' * 60_000 + "} 1", 'm{a="' + "\\" * 60_001 + '"} 1', "m{" + 'a="x",' * 9_000 + "} 1"]
)
def test_a_hostile_line_costs_no_time(line: str) -> None:
    began = time.process_time()
    parse_page(line, skip_malformed=True)
    assert time.process_time() - began < 5


def test_a_written_page_reads_back() -> None:
    labels = {"gpu": "0", "UUID": "GPU-b9f9"}
    text = format_page(
        [("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (C)", [(labels, 41)]), ("x", "counter", "", [])]
    )
    assert text == (
        "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (C)\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
        'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-b9f9"} 41\n# HELP x \n# TYPE x counter\n'
    )
    assert parse_page(text).samples == (Sample("DCGM_FI_DEV_GPU_TEMP", labels, 41.0),)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_no_field_can_hold_is_not_written(value: float) -> None:
    with pytest.raises(PageError, match="leave the series out"):
        format_page([("m", "gauge", "", [({}, value)])])
