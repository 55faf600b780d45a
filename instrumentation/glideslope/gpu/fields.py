# SPDX-License-Identifier: Apache-2.0
"""The DCGM fields that glideslope asks for: the catalogue behind `collectors/dcgm/counters.csv`.

In: field names as DCGM spells them, old or new. Out: number, unit, kind, help; values without DCGM's "blank" numbers.
Names, numbers and blanks: DCGM 4.6 `dcgm_fields.h`; units: DCGM exporter. Kinds of fields that DCGM exporter's own file
leaves out are ours. Imports errors only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntFlag
from functools import cache

from glideslope.errors import PageError


@dataclass(frozen=True, slots=True)
class Field:
    """One DCGM field."""

    name: str
    """As DCGM before 4.6 spells it; newer ones keep it as an alias."""
    number: int
    unit: str
    """UCUM; empty where there is none."""
    kind: str
    """`gauge`, `counter` or `label`."""
    help: str
    """Without a comma: DCGM exporter splits its file there."""
    group: str


def _fields() -> tuple[Field, ...]:
    table = {
        "identity": ("DCGM_FI_DRIVER_VERSION|1||label|Driver version",),
        "activity": (
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE|1001|1|gauge|Share of time a graphics or compute engine is active (0-1)",
            "DCGM_FI_PROF_SM_ACTIVE|1002|1|gauge|Share of cycles with at least one warp resident (0-1)",
            "DCGM_FI_PROF_SM_OCCUPANCY|1003|1|gauge|Resident warps over the maximum (0-1)",
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE|1004|1|gauge|Share of cycles any tensor pipe is active (0-1)",
            "DCGM_FI_PROF_DRAM_ACTIVE|1005|1|gauge|Share of cycles the memory interface is busy (0-1)",
            "DCGM_FI_PROF_PCIE_TX_BYTES|1009|By/s|gauge|PCIe bytes per second sent by the GPU",
            "DCGM_FI_PROF_PCIE_RX_BYTES|1010|By/s|gauge|PCIe bytes per second received by the GPU",
            "DCGM_FI_PROF_NVLINK_TX_BYTES|1011|By/s|gauge|NVLink bytes per second sent",
            "DCGM_FI_PROF_NVLINK_RX_BYTES|1012|By/s|gauge|NVLink bytes per second received",
            "DCGM_FI_DEV_GPU_UTIL|203|%|gauge|Share of time any kernel ran (%)",
            "DCGM_FI_DEV_MEM_COPY_UTIL|204|%|gauge|Memory interface use (%)",
            "DCGM_FI_DEV_FB_USED|252|MiBy|gauge|Framebuffer used (MiB)",
            "DCGM_FI_DEV_FB_FREE|251|MiBy|gauge|Framebuffer free (MiB)",
            "DCGM_FI_DEV_FB_RESERVED|253|MiBy|gauge|Framebuffer reserved (MiB)",
        ),
        "clocks power heat": (
            "DCGM_FI_DEV_SM_CLOCK|100|MHz|gauge|SM clock (MHz)",
            "DCGM_FI_DEV_MEM_CLOCK|101|MHz|gauge|Memory clock (MHz)",
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS|112||gauge|Bit mask of clock event reasons",
            "DCGM_FI_DEV_POWER_USAGE|155|W|gauge|Power (W)",
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION|156|mJ|counter|Energy since driver load (mJ)",
            "DCGM_FI_DEV_GPU_TEMP|150|Cel|gauge|GPU temperature (C)",
            "DCGM_FI_DEV_MEMORY_TEMP|140|Cel|gauge|Memory temperature (C)",
            "DCGM_FI_DEV_GPU_TEMP_LIMIT|153|Cel|gauge|Margin to the nearest slowdown threshold (C)",
            "DCGM_FI_DEV_POWER_VIOLATION|240|ns|counter|Throttling by power (ns)",
            "DCGM_FI_DEV_THERMAL_VIOLATION|241|ns|counter|Throttling by temperature (ns)",
            "DCGM_FI_DEV_SYNC_BOOST_VIOLATION|242|ns|counter|Throttling by sync boost (ns)",
            "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION|243|ns|counter|Throttling by board limit (ns)",
            "DCGM_FI_DEV_RELIABILITY_VIOLATION|245|ns|counter|Throttling by reliability limit (ns)",
        ),
        "errors": (
            "DCGM_FI_DEV_XID_ERRORS|230||gauge|Last XID code (sticky)",
            # Typed `counter` in the exporter's own file, yet it falls: it counts a trailing window.
            "DCGM_EXP_XID_ERRORS_COUNT|9001||gauge|XID events in the trailing window",
            "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL|310||counter|Volatile single-bit ECC errors",
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL|311||counter|Volatile double-bit ECC errors",
            "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL|312||counter|Aggregate single-bit ECC errors",
            "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL|313||counter|Aggregate double-bit ECC errors",
            "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS|394||counter|Rows remapped for correctable errors",
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS|393||counter|Rows remapped for uncorrectable errors",
            "DCGM_FI_DEV_ROW_REMAP_FAILURE|395||gauge|Row remapping failed",
            "DCGM_FI_DEV_ROW_REMAP_PENDING|396||gauge|Row remapping waits for a reset",
            "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_MAX|385||gauge|Banks with all spare rows",
            "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_LOW|388||gauge|Banks low on spare rows",
            "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE|389||gauge|Banks without spare rows",
            "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION|1523||gauge|Recovery action asked by the driver (0 = none)",
        ),
        "links": (
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER|202||counter|PCIe replays",
            "DCGM_FI_DEV_PCIE_LINK_GEN|237||gauge|PCIe generation now",
            "DCGM_FI_DEV_PCIE_LINK_WIDTH|238||gauge|PCIe width now",
            "DCGM_FI_DEV_PCIE_MAX_LINK_GEN|235||gauge|PCIe generation possible",
            "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH|236||gauge|PCIe width possible",
            "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL|449||counter|NVLink traffic of all lanes",
            "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL|409||counter|NVLink flow-control CRC errors",
            "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL|419||counter|NVLink data CRC errors",
            "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL|429||counter|NVLink replays",
            "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL|439||counter|NVLink recoveries",
            "DCGM_FI_DEV_FABRIC_MANAGER_STATUS|170||gauge|Fabric manager state",
            "DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS|856||gauge|NVSwitch fatal error code",
            "DCGM_FI_DEV_NVSWITCH_NON_FATAL_ERRORS|857||gauge|NVSwitch non-fatal error code",
        ),
    }
    found = []
    for group, rows in table.items():
        for row in rows:
            name, number, unit, kind, text = row.split("|")
            found.append(Field(name, int(number), unit, kind, text, group))
    return tuple(found)


FIELDS = _fields()
"""Every field, in the order of the counters file."""

ALIASES: dict[str, tuple[str, float]] = {
    "DCGM_FI_SYSTEM_DRIVER_VERSION": ("DCGM_FI_DRIVER_VERSION", 1),
    "DCGM_FI_DEV_SM_CLOCK_HERTZ": ("DCGM_FI_DEV_SM_CLOCK", 1e-6),
    "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ": ("DCGM_FI_DEV_MEM_CLOCK", 1e-6),
    "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1e3),
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": ("DCGM_FI_DEV_GPU_TEMP", 1),
    "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS": ("DCGM_FI_DEV_MEMORY_TEMP", 1),
    "DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS": ("DCGM_FI_DEV_GPU_TEMP_LIMIT", 1),
    "DCGM_FI_DEV_BOARD_POWER_WATTS": ("DCGM_FI_DEV_POWER_USAGE", 1),
    "DCGM_FI_DEV_GPU_UTIL_RATIO": ("DCGM_FI_DEV_GPU_UTIL", 1),
    "DCGM_FI_DEV_XID_ERROR": ("DCGM_FI_DEV_XID_ERRORS", 1),
    "DCGM_FI_DEV_PCIE_REPLAY_TOTAL": ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 1),
    "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL": ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 1),
    "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL": ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", 1),
    "DCGM_FI_DEV_ROW_REMAP_FAILED": ("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1),
    "DCGM_FI_DEV_BANK_REMAP_AVAIL_MAX": ("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_MAX", 1),
    "DCGM_FI_DEV_BANK_REMAP_AVAIL_LOW": ("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_LOW", 1),
    "DCGM_FI_DEV_BANK_REMAP_AVAIL_NONE": ("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE", 1),
    "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL": ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 1),
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL": ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", 1),
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL": ("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", 1),
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL": ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", 1),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL": ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", 1),
    "DCGM_FI_DEV_GPU_RECOVERY_ACTION": ("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", 1),
    "DCGM_FI_DEV_SXID_FATAL_ERROR": ("DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS", 1),
    "DCGM_FI_DEV_SXID_NON_FATAL_ERROR": ("DCGM_FI_DEV_NVSWITCH_NON_FATAL_ERRORS", 1),
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1),
    "DCGM_FI_PROF_SM_UTIL_RATIO": ("DCGM_FI_PROF_SM_ACTIVE", 1),
    "DCGM_FI_PROF_SM_OCCUPANCY_RATIO": ("DCGM_FI_PROF_SM_OCCUPANCY", 1),
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 1),
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": ("DCGM_FI_PROF_DRAM_ACTIVE", 1),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 1),
}
"""Other spelling -> (name in FIELDS, factor that turns its value into our unit)."""


class ClockReason(IntFlag):
    """Bits of DCGM_FI_DEV_CLOCKS_EVENT_REASONS; the same as NVML's."""

    IDLE = 0x1
    APPLICATION_CLOCKS = 0x2
    SOFTWARE_POWER_CAP = 0x4
    HARDWARE_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    SOFTWARE_THERMAL = 0x20
    HARDWARE_THERMAL = 0x40
    HARDWARE_POWER_BRAKE = 0x80
    DISPLAY_CLOCK = 0x100


# The software power cap is set all the time at full load, so it is no fault.
CLOCK_FAULTS = ClockReason.HARDWARE_SLOWDOWN | ClockReason.HARDWARE_THERMAL | ClockReason.HARDWARE_POWER_BRAKE
"""Reasons that are worth an alarm by themselves."""

BLANK_INT64 = 9223372036854775792
"""First of the four numbers by which DCGM says blank, not found, unsupported, not permitted, as a 64-bit integer."""
BLANK_INT32 = 2147483632
BLANK_FP64 = 140737488355328.0


def without_blank(value: float) -> float | None:
    """Return the value, or None for NaN and for DCGM's "blank" numbers, which old exporters print as if measured."""
    # Read as a double, the four 64-bit blanks are one number: 2^63.
    if math.isnan(value) or value >= 9e18:
        return None
    if BLANK_INT32 <= value <= BLANK_INT32 + 3 or BLANK_FP64 <= value <= BLANK_FP64 + 3:
        return None
    return value


def is_blank_text(text: str) -> bool:
    """True for the texts by which DCGM says the same in a label, such as `<<<NULL>>>`."""
    return text.startswith("<<<") and text.endswith(">>>")


@cache
def _by_name() -> dict[str, Field]:
    return {field.name: field for field in FIELDS}


def canonical(name: str) -> tuple[str, float]:
    """Return our spelling of a field name and the factor for its values; a name we do not know stays as it is."""
    return ALIASES.get(name, (name, 1))


def field(name: str) -> Field:
    """Look a field up by either spelling; raises PageError for one that is not in the catalogue."""
    try:
        return _by_name()[canonical(name)[0]]
    except KeyError:
        raise PageError(
            f"{name!r} is not in the catalogue of DCGM fields: add it to glideslope/gpu/fields.py"
        ) from None


def counters_csv() -> str:
    """The file that DCGM exporter is started with (`-f`): one line for each field, three columns."""
    width = max(len(field.name) for field in FIELDS) + 1
    lines = [
        "# What glideslope asks of DCGM exporter: dcgm-exporter -f counters.csv",
        "# In step with glideslope/gpu/fields.py; a test compares them. Three columns, no comma in the help.",
    ]
    group = ""
    for one in FIELDS:
        if one.group != group:
            group = one.group
            lines.append(f"# {group}")
        lines.append(f"{one.name + ',':<{width}} {one.kind + ',':<8} {one.help}")
    return "\n".join(lines) + "\n"
