# SPDX-License-Identifier: Apache-2.0
"""Whatever is logged becomes numbers, or a reason: every kind of number, every dtype, every thing that is none."""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode

from glideslope.capture import values
from glideslope.capture.values import MetricReader, Refused, scalar, step_of


class Meter:
    def __float__(self) -> float:
        return 1.5


class Broken:
    def __float__(self) -> float:
        raise RuntimeError("no")


class Liar:
    def __len__(self) -> int:
        return 2**40

    def __iter__(self) -> Any:
        return iter([1.0])


class Faceless:
    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise ValueError("no class")


def causes(found: values.Read) -> list[str]:
    return [bad.cause for bad in found.refused]


@pytest.mark.parametrize(
    "value",
    [
        1.5,
        Decimal("1.5"),
        Fraction(3, 2),
        Meter(),
        np.float64(1.5),
        np.float32(1.5),
        np.float16(1.5),
        np.longdouble(1.5),
    ]
    + [ml_dtypes.bfloat16(1.5), np.array(1.5), np.array([1.5], np.float32), np.array([[1.5]], ml_dtypes.float8_e4m3fn)]
    + [torch.tensor(1.5, dtype=dtype) for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16)]
    + [torch.tensor([1.5]).to(torch.float8_e5m2), torch.tensor([[1.5]], requires_grad=True)]
    + [torch.nn.Parameter(torch.tensor(1.5))],
    ids=lambda value: f"{type(value).__name__}-{getattr(value, 'dtype', '')}",
)
def test_a_number_of_any_kind_is_read(value: Any) -> None:
    assert scalar(value) == 1.5
    assert type(scalar(value)) is float


@pytest.mark.parametrize(
    "value", [True, 1, np.int8(1), np.uint64(1), np.bool_(True), torch.tensor(True), torch.tensor(1, dtype=torch.uint8)]
)
def test_integers_and_booleans_are_numbers(value: Any) -> None:
    assert scalar(value) == 1.0


def test_not_finite_values_are_read_as_they_are() -> None:
    assert math.isnan(scalar(float("nan")))
    assert scalar(torch.tensor(-math.inf)) == -math.inf


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (None, "none"),
        ("1.5", "text"),
        (b"1", "text"),
        (1j, "complex"),
        (np.complex64(1), "complex"),
        (np.array(1j), "complex"),
        (torch.tensor(1j), "complex"),
        (np.array("1.5"), "type"),
        (np.datetime64("2020-01-01"), "type"),
        (np.zeros(2), "shape"),
        (np.zeros(0), "shape"),
        (torch.zeros(2, 3), "shape"),
        ([1.0], "type"),
        ({"a": 1}, "type"),
        (object(), "type"),
        (torch.float32, "type"),
        (Broken(), "unreadable"),
        (Faceless(), "unreadable"),
        (10**400, "unreadable"),
        (torch.zeros((), device="meta"), "fake"),
        (torch.zeros(1).to_sparse(), "sparse"),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_what_is_no_number_is_refused_with_a_cause_and_a_remedy(value: Any, cause: str) -> None:
    found = scalar(value)
    assert isinstance(found, Refused)
    assert found.cause == cause
    assert ":" in found.told


def test_fake_tensors_and_transformed_tensors_are_refused() -> None:
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.zeros(()))
        assert scalar(fake).cause == "fake"
    assert scalar(fake).cause == "fake"
    seen: list[Any] = []

    def loss(x: torch.Tensor) -> torch.Tensor:
        seen.append(scalar(x.sum()))
        return x.sum()

    torch.func.grad(loss)(torch.ones(3))
    torch.func.vmap(loss)(torch.ones(3, 2))
    assert [found.cause for found in seen] == ["transformed", "transformed"]


def test_reading_a_tensor_leaves_its_graph_alone() -> None:
    x = torch.ones(2, requires_grad=True)
    loss = (x * 2).sum()
    found = MetricReader().read({"loss": loss})
    loss.backward()  # type: ignore[no-untyped-call]
    assert found.values == (4.0,)
    assert x.grad is not None and loss.grad_fn is not None


def test_the_names_of_a_repeated_dict_are_one_object() -> None:
    reader = MetricReader()
    names = [f"m{i}" for i in range(100)]
    first = reader.read(dict.fromkeys(names, 1.0))
    second = reader.read({name: 2 for name in names})
    assert second.names is first.names
    assert list(second.values) == [2.0] * 100
    assert reader.read(np.ones(100), names).names is first.names


def test_a_tuple_of_names_is_known_by_identity_from_its_first_call_on() -> None:
    reader, names = MetricReader(), ("a", "b")
    for _ in range(3):
        assert reader.read(np.ones(2), names).names is names


@pytest.mark.parametrize("count", [1, 3, 15, 16, 17, 1000])
def test_dicts_of_any_size_keep_every_value_with_its_name(count: int) -> None:
    reader = MetricReader()
    for offset in (0.0, 0.5):
        values_in = {f"m{i}": i + offset for i in range(count)}
        found = reader.read(values_in)
        assert dict(zip(found.names, map(float, found.values), strict=True)) == values_in


def test_good_values_of_a_call_go_on_without_the_bad_ones() -> None:
    reader = MetricReader()
    for _ in range(2):
        found = reader.read({"a": 1, "b": None, "c": "x", "d": torch.tensor(2.0), 5: 1.0, "": 1.0})
        assert (found.names, tuple(found.values)) == (("a", "d"), (1.0, 2.0))
        assert causes(found) == ["none", "text", "name", "name"]
        assert [bad.name for bad in found.refused][:2] == ["b", "c"]


def test_a_known_dict_that_turns_bad_is_seen() -> None:
    reader = MetricReader()
    assert causes(reader.read({"a": 1.0, "b": 1.0})) == []
    assert causes(reader.read({"a": 1.0, "b": "2.0"})) == ["text"]
    assert causes(reader.read({"a": 1.0, "b": 10**400})) == ["unreadable"]
    assert tuple(reader.read({"a": 1.0, "b": 2.0}).values) == (1.0, 2.0)


def test_text_in_a_large_dict_is_never_read_as_a_number() -> None:
    reader = MetricReader()
    names = [f"m{i}" for i in range(1000)]
    reader.read(dict.fromkeys(names, 1.0))
    found = reader.read({**dict.fromkeys(names, 1.0), "m500": "7"})
    assert causes(found) == ["text"]
    assert len(found.names) == 999


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32, np.bool_, ml_dtypes.bfloat16])
def test_arrays_with_names_are_read_whole(dtype: Any) -> None:
    array = np.arange(4).astype(dtype)
    reader = MetricReader()
    for _ in range(2):
        found = reader.read(array, ["a", "b", "c", "d"])
        assert found.names == ("a", "b", "c", "d")
        assert np.array_equal(found.values, array.astype(np.float64))
        assert found.values.dtype == np.float64


@pytest.mark.parametrize("array", [torch.arange(3.0), torch.arange(3), torch.arange(3).bfloat16(), [0, 1.0, True + 1]])
def test_tensors_and_lists_with_names_are_read_whole(array: Any) -> None:
    found = MetricReader().read(array, ("a", "b", "c"))
    assert list(map(float, found.values)) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("array", "names", "cause"),
    [
        (np.zeros(3), ["a", "b"], "shape"),
        (np.zeros((3, 1)), ["a", "b", "c"], "shape"),
        (np.zeros(3, complex), ["a", "b", "c"], "complex"),
        (np.array(["x"]), ["a"], "type"),
        (torch.zeros(3), ["a", "b"], "shape"),
        ([1.0], ["a", "b"], "shape"),
        ("ab", ["a", "b"], "type"),
        (np.zeros(1), "a", "names"),
        (np.zeros(1), 7, "names"),
        (1.0, ["a"], "type"),
        ({"a": 1}, ["a"], "type"),
    ],
)
def test_arrays_that_do_not_fit_their_names_are_refused_and_counted_by_name(array: Any, names: Any, cause: str) -> None:
    found = MetricReader().read(array, names)
    assert causes(found) == [cause]
    assert found.refused[0].lost == (len(names) if isinstance(names, list) else 1)
    assert not found.names


def test_bad_names_of_an_array_cost_only_their_values() -> None:
    found = MetricReader().read(np.arange(3.0), ["a", "", "c"])
    assert (found.names, list(found.values), causes(found)) == (("a", "c"), [0.0, 2.0], ["name"])


def test_a_name_may_have_1024_bytes_and_no_more() -> None:
    assert values.name_refused("x" * 1024) is None
    assert values.name_refused("ä" * 512) is None
    assert values.name_refused("ä" * 513) is not None
    assert values.name_refused("\ud800") is None


def test_an_endless_iterable_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MAX_VALUES", 50)

    def forever() -> Any:
        while True:
            yield 1.0

    assert causes(MetricReader().read(forever(), ["a"])) == ["shape"]
    many = MetricReader().read({f"m{i}": 1.0 for i in range(60)})
    assert (len(many.names), causes(many)) == (50, ["size"])


@pytest.mark.parametrize("step", [0, 1, 2.5, np.int64(3), torch.tensor(4), 1e12, Decimal("0.5")])
def test_steps_are_numbers_from_0_to_1e12(step: Any) -> None:
    assert step_of(step) == float(step)


@pytest.mark.parametrize("step", [-1, math.nan, math.inf, 1.1e12, 10**400, None, "3", torch.zeros(2)])
def test_other_steps_are_refused(step: Any) -> None:
    found = step_of(step)
    assert isinstance(found, Refused) and found.cause == "step"


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.dates()
    | st.builds(Broken)
    | st.builds(Liar)
    | st.sampled_from([object, len, torch.float32, torch.zeros(2), np.zeros((2, 0))]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None, database=None)
@given(found=ANYTHING, names=st.none() | ANYTHING)
def test_no_argument_makes_the_reader_raise(found: Any, names: Any) -> None:
    read = MetricReader().read(found, names)
    assert len(read.names) == len(read.values)
    assert all(isinstance(name, str) and name for name in read.names)
    if isinstance(found, dict) and names is None:
        assert len(read.names) + sum(bad.lost for bad in read.refused) >= len(found)


def test_reading_numbers_loads_no_torch() -> None:
    code = (
        "import sys\nfrom glideslope.capture.values import MetricReader\nimport numpy as np\n"
        "r = MetricReader()\nr.read({'a': 1, 'b': np.float32(2), 'c': None, 'd': object()})\n"
        "r.read(np.ones(2), ['a', 'b'])\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
