# SPDX-License-Identifier: Apache-2.0
"""Logging inside a compiled function: one graph break, plain values, nothing of ours is compiled, no warning."""

from typing import Any

from glideslope.testing import OtlpReceiver

SCRIPT = """
import glideslope
run = glideslope.init(run_id="compiled")
import torch
from torch._dynamo.utils import counters

@torch.compile(backend="eager")
def loss(x):
    y = x.sum() * 2
    run.log_metrics({"y": y, "one": 1.0}, step=1)
    run.log_text("note", "inside", step=1)
    return y + 1

for value in (1.0, 2.0, 3.0):
    assert loss(torch.full((3,), value)).item() == 6 * value + 1
print(counters["stats"]["unique_graphs"], counters["frames"]["total"])
"""


def test_a_compiled_function_logs_plain_values_and_the_compiler_stays_out(
    run_script: Any, receiver: OtlpReceiver
) -> None:
    done = run_script(SCRIPT)
    assert (done.returncode, done.stderr) == (0, "")
    values = [point.value for point in receiver.metrics("train.metric") if point.attributes == {"metric.name": "y"}]
    assert values[:3] == [6.0, 12.0, 18.0]
    graphs, frames = map(int, done.stdout.split())
    # One before and one after the calls; frames are the function and what resumes after each call.
    assert graphs == 2
    assert frames <= 3
