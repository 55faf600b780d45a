# SPDX-License-Identifier: Apache-2.0
"""GPU telemetry, complete enough to stand alone: DCGM fields, exporter pages read and written, identity, XID codes.

In: text and numbers of DCGM exporter and NVML. Out: typed values. Imports config, env and errors only; no GPU is needed
to import it.
"""

from glideslope.gpu.fields import FIELDS, ClockReason, Field, counters_csv, field, without_blank
from glideslope.gpu.identity import Gpu, list_gpus, pci_bus_id, uuid, uuids_by_local_rank
from glideslope.gpu.page import Page, Sample, format_page, parse_page
from glideslope.gpu.xid import Origin, Severity, Xid, xid

__all__ = [
    "ClockReason",
    "FIELDS",
    "Field",
    "Gpu",
    "Origin",
    "Page",
    "Sample",
    "Severity",
    "Xid",
    "counters_csv",
    "field",
    "format_page",
    "list_gpus",
    "parse_page",
    "pci_bus_id",
    "uuid",
    "uuids_by_local_rank",
    "without_blank",
    "xid",
]
