# SPDX-License-Identifier: Apache-2.0
"""The stack ships what a killed training left on disk, without anybody asking."""

import subprocess
import sys
from typing import Any

from waiting import until

from glideslope.store.victoria import Victoria

TRAINING = """
import os, glideslope
run = glideslope.init(run_id="left-behind")
for step in range(50):
    run.log_metrics({"x": float(step)}, step)
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_training_left_is_in_the_store_soon(stack: Any) -> None:
    # Nobody listens there: all that the training logged is on disk when it is killed.
    nowhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    ended = subprocess.run([sys.executable, "-c", TRAINING], env=stack.env | nowhere, timeout=60)
    assert ended.returncode == -9

    def stored() -> list[float]:
        with Victoria(stack.live) as store:
            store.flush()
            found = store.export('train_metric{run_id="left-behind"}')
            return [value for series in found for value in series.values]

    until(lambda: stored() == [float(step) for step in range(50)], "the values of the killed training", 60)
