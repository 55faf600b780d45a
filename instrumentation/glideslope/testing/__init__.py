# SPDX-License-Identifier: Apache-2.0
"""What users' tests and the demo need in place of the real thing: an OTLP receiver in memory and simulated GPUs.

In: OTLP/HTTP requests, or the load of processes. Out: decoded points, spans and logs; DCGM exporter pages whose every
series is marked `gpu_simulated="true"`. Needs no test framework. No other part of the package may import this one.
"""

from glideslope.testing.gpus import Load, SimulatedGpu, SimulatedGpus, dcgm_page
from glideslope.testing.otlp import LogRecord, OtlpReceiver, Point, Request, Span

__all__ = [
    "Load",
    "LogRecord",
    "OtlpReceiver",
    "Point",
    "Request",
    "SimulatedGpu",
    "SimulatedGpus",
    "Span",
    "dcgm_page",
]
