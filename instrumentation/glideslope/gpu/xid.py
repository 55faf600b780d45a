# SPDX-License-Identifier: Apache-2.0
"""XID codes: what they mean, how bad they are, and whose fault they usually are.

In: a code. Out: meaning, severity, origin. A code alone gives a prior, not a verdict: 13, 31, 43 and 69 are the
program's unless the same GPU repeats them across runs; 45 follows another fault and says nothing by itself.
Source: NVIDIA's XID catalogue, gpud's event types, k8s-device-plugin's list of harmless codes. Imports nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How urgent a code is by itself."""

    CRITICAL = "critical"
    """The GPU cannot go on: reset, reboot or replace it."""
    WARNING = "warning"
    """The program dies or the GPU wears; the GPU can go on."""
    INFO = "info"
    """Nothing to do by itself."""


class Origin(StrEnum):
    """Whose fault a code usually is."""

    INFRA = "infra"
    USER = "user"
    CASCADE = "cascade"
    """It follows another fault: look for that."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Xid:
    """One XID code."""

    number: int
    meaning: str
    severity: Severity
    origin: Origin


_TABLE = """
0|No error|info|unknown
8|GPU stopped processing|warning|unknown
11 25 32 80|Corrupted push buffer or data sent to the GPU|warning|user
13|Graphics engine exception|warning|user
31|GPU memory page fault|warning|user
37 38|Driver firmware error|warning|infra
39 40 41 70 71 72 75 76 77 85|Copy engine exception|warning|infra
43|GPU stopped processing|info|cascade
44|Graphics engine fault during context switch|warning|infra
45|Preemptive cleanup due to previous errors|info|cascade
46|GPU stopped processing|critical|infra
48|Double-bit ECC error|critical|infra
54|Auxiliary power is not connected|critical|infra
57 58 59 61|Memory interface or micro-controller error|warning|infra
62|Internal micro-controller halt|critical|infra
63|Row remapping or page retirement recorded|info|infra
64|Row remapping or page retirement failed|critical|infra
65 73 142|Video encoder error|warning|infra
66 67|Illegal access by driver|warning|infra
68 82 83 84 88 89 96 97 98 99 100 101 102 103 104 105|Video or JPEG decoder error|warning|unknown
69|Graphics engine class error|warning|user
74|NVLink error|critical|infra
78|vGPU start error|warning|infra
79|GPU has fallen off the bus|critical|infra
81|VGA subsystem error|critical|infra
92|High single-bit ECC error rate|warning|infra
93|InfoROM wear limit passed|info|infra
94|Contained memory error|warning|infra
95|Uncontained memory error|critical|infra
109|Context switch timeout|warning|unknown
110|Security fault|critical|infra
119|GSP RPC timeout|critical|infra
120|GSP error|critical|infra
121|C2C link error|warning|infra
123|SPI PMU RPC write failure|critical|infra
126 127 128 129 130 131 132 133 134 135|Copy engine exception|warning|infra
136|NVLink training failed|critical|infra
137|NVLink privilege error|warning|cascade
140|Unrecovered ECC error|critical|infra
143|GPU initialisation failure|critical|infra
144 145 146 147 148 149 150|NVLink 5 error|critical|infra
151|Key rotation error|warning|infra
154|GPU recovery action changed|info|cascade
155|NVLink error defined by software|critical|infra
156|Resource retirement|critical|infra
157|Resource retirement failure|critical|infra
158|GPU fatal timeout|critical|infra
159|CHI non-data error|warning|infra
160 161|Channel retirement|info|infra
162 163 164 165|Power smoothing changed|info|infra
167|PCIe fatal timeout|critical|infra
168|Reduced memory capacity|warning|infra
169|Internal micro-controller halt|critical|infra
171|Uncorrectable DRAM error|critical|infra
172|Uncorrectable SRAM error|critical|infra
"""


def _catalogue() -> dict[int, Xid]:
    found: dict[int, Xid] = {}
    for line in _TABLE.strip().splitlines():
        numbers, meaning, severity, origin = line.split("|")
        for number in map(int, numbers.split()):
            found[number] = Xid(number, meaning, Severity(severity), Origin(origin))
    return found


CATALOGUE = _catalogue()
"""Every code that we know, by number."""


def xid(number: int) -> Xid:
    """Look a code up; one that we do not know is a warning of unknown origin."""
    return CATALOGUE.get(number) or Xid(number, "Unknown error", Severity.WARNING, Origin.UNKNOWN)
