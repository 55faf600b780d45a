# SPDX-License-Identifier: Apache-2.0
"""Configurations of any shape become flat, plain and bounded."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from glideslope.run import configs
from glideslope.run.configs import flatten, is_config


class Mode(enum.Enum):
    FAST = 1


@dataclasses.dataclass
class Optimizer:
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.95)


@dataclasses.dataclass
class Training:
    optimizer: Optimizer = dataclasses.field(default_factory=Optimizer)
    mode: Mode = Mode.FAST
    path: Path = Path("/data")
    seed: int | None = None


FLAT = {"optimizer/lr": 1e-3, "optimizer/betas": "[0.9, 0.95]", "mode": "FAST", "path": "/data", "seed": "None"}


@pytest.mark.parametrize(
    "config",
    [
        Training(),
        dataclasses.asdict(Training()),
        vars(Training()),
        argparse.Namespace(**vars(Training())),
        SimpleNamespace(**vars(Training())),
    ],
    ids=["dataclass", "dict", "vars", "argparse", "types"],
)
def test_every_shape_of_a_config_gives_the_same_keys(config: Any) -> None:
    assert flatten(config) == (FLAT, 0)


def test_omegaconf_is_read_and_what_it_misses_hides_nothing_else() -> None:
    config = OmegaConf.create({"model": {"width": 4, "depth": "${model.width}", "todo": "???"}, "list": [1, {"a": 2}]})
    assert flatten(config).values == {
        "model/width": 4,
        "model/depth": 4,
        "model/todo": "(unreadable: MissingMandatoryValue)",
        "list/0": 1,
        "list/1/a": 2,
    }


def test_leaves_are_plain() -> None:
    values = flatten(
        {"a": True, "b": 2**70, "c": math.nan, "d": torch.bfloat16, "e": np.float32(1), "f": print, "g": Optimizer}
        | {"h": b"abc", "i": {}, "j": [], "k": {1: {2.5: "x"}}, "/l/": 1, "": 2, "m": torch.device("cpu")}
    ).values
    assert values == {
        "a": True,
        "b": str(2**70),
        "c": "nan",
        "d": "torch.bfloat16",
        "e": "1.0",
        "f": "builtins.print",
        "g": f"{__name__}.Optimizer",
        "h": "(3 bytes)",
        "i": "{}",
        "j": "[]",
        "k/1/2.5": "x",
        "l": 1,
        "(empty)": 2,
        "m": "cpu",
    }


def test_what_is_no_config_is_told_apart() -> None:
    assert all(map(is_config, ({}, Training(), argparse.Namespace(), [{"a": 1}])))
    assert not any(map(is_config, (None, 5, "text", [1, 2], object(), Optimizer)))


def test_a_config_that_contains_itself_ends() -> None:
    config: dict[str, Any] = {"a": 1}
    config["self"] = config
    config["list"] = [config, {"b": 2}]
    found = flatten(config)
    assert found.values == {"a": 1, "list/1/b": 2}
    assert found.cut == 2


def test_depth_number_and_size_are_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Any = 1
    for _ in range(40):
        deep = {"d": deep}
    assert flatten(deep) == ({}, 1)
    many = flatten({f"k{i}": i for i in range(configs.MAX_KEYS + 7)})
    assert len(many.values) == configs.MAX_KEYS
    assert many.cut >= 1
    long = flatten({"x" * 2000: "y" * 10_000})
    ((key, value),) = long.values.items()
    assert len(key.encode()) <= configs.MAX_KEY_BYTES and len(str(value).encode()) <= configs.MAX_VALUE_BYTES
    assert long.cut == 1
    monkeypatch.setattr(configs, "MAX_BYTES", 1000)
    assert flatten({f"k{i}": "v" * 100 for i in range(100)}).cut > 80


def test_a_value_that_cannot_be_shown_hides_nothing_else() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no")

    found = flatten({"a": Broken(), "b": 1}).values
    assert found["b"] == 1
    assert "unreadable: RuntimeError" in str(found["a"])


def test_every_entry_beyond_the_bound_is_counted() -> None:
    found = flatten({f"k{number}": number for number in range(20_000)})
    assert (len(found.values), found.cut) == (configs.MAX_KEYS, 20_000 - configs.MAX_KEYS)
