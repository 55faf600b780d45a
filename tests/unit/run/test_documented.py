# SPDX-License-Identifier: Apache-2.0
"""The example of instrumentation/README.md runs as it stands and its values arrive."""

import re
from pathlib import Path
from typing import Any

from glideslope.testing import OtlpReceiver

README = Path(__file__).parents[3] / "instrumentation" / "README.md"


def test_the_example_of_the_readme_logs_what_it_says(run_script: Any, receiver: OtlpReceiver) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    done = run_script(example)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    values: dict[Any, list[float]] = {}
    for point in receiver.metrics("train.metric"):
        if point.value:  # the marker that ends a series decodes as 0
            values.setdefault(point.attributes["metric.name"], []).append(point.value)
    assert values == {
        "train/loss": [2.0, 1.0, 2.0 / 3],
        "train/acc": [0.3] * 3,
        "eval/top1": [0.91],
        "eval/f1": [0.87],
    }
    assert receiver.metrics()[0].resource["run.id"].startswith("train-")  # type: ignore[union-attr]
    assert [log.body for log in receiver.logs("train.text")]
    assert [log.attributes["config.key"] for log in receiver.logs("train.config")] == ["model/width"]
    assert len(receiver.logs("train.tags")) == 1
