# SPDX-License-Identifier: Apache-2.0
"""The examples of the READMEs run as they stand and their values arrive."""

import re
from pathlib import Path
from typing import Any

from glideslope.testing import OtlpReceiver

ROOT = Path(__file__).parents[3]


def example(document: Path) -> str:
    (found,) = re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)
    return str(found)


def test_the_example_of_the_readme_logs_what_it_says(run_script: Any, receiver: OtlpReceiver) -> None:
    done = run_script(example(ROOT / "instrumentation" / "README.md"))
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


def test_the_example_of_the_front_page_logs_its_value(run_script: Any, receiver: OtlpReceiver) -> None:
    done = run_script(example(ROOT / "README.md"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [point.value for point in receiver.metrics("train.metric") if point.value] == [2.31]
