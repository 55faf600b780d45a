# SPDX-License-Identifier: Apache-2.0
"""Series blocks against opentelemetry-proto: what goes in comes out, nothing else does."""

import numpy as np
import pytest

from glideslope.emit.encoder import Request
from glideslope.emit.frames import Definition, SeriesGroup
from glideslope.emit.series import SeriesBlock

START = 1_800_000_000_000_000_000


def group(metric, count, instrument="gauge", offset=0):
    rows = [(f"layer{'x' * (i % 7)}.{i + offset}", i + offset) for i in range(count)]
    return SeriesGroup(
        metric, instrument, "s" if instrument == "gauge" else "", {"kind": "grad"}, ("name", "index"), rows
    )


def block(*groups):
    return SeriesBlock(Definition(5, 0, {"run.id": "r", "dist.rank": 3}, START, groups))


def encode(series, times, values, read_points, columns=None, max_points=20_000, max_bytes=4 << 20):
    chunks = list(
        series.chunks(np.asarray(times, np.uint64), np.asarray(values, float), columns, max_points, max_bytes)
    )
    found = read_points(Request("metrics", *chunk) for chunk in chunks)
    return chunks, {(p.attributes["index"], p.name, p.time_ns): p for p in found}, found


@pytest.mark.parametrize("seed", range(20))
def test_random_rows_with_gaps_come_back_exactly(seed, read_points):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 40, 3)
    series = block(group("a", sizes[0]), group("b", sizes[1], "counter", 100), group("c", sizes[2], offset=200))
    names = ["a"] * sizes[0] + ["b"] * sizes[1] + ["c"] * sizes[2]
    numbers = [*range(sizes[0]), *range(100, 100 + sizes[1]), *range(200, 200 + sizes[2])]
    rows = int(rng.integers(1, 60))
    values = rng.standard_normal((rows, len(names))) * 10.0 ** rng.integers(-300, 300, (rows, len(names)))
    if seed % 2:
        patterns = rng.random((3, len(names))) < 0.5
        values[patterns[rng.integers(0, 3, rows)]] = rng.choice([np.nan, np.inf, -np.inf])
    times = START + np.arange(rows) * 1_000_000
    bounds = {"max_points": int(rng.integers(1, 200)), "max_bytes": int(rng.integers(100, 20_000))}
    chunks, found, listed = encode(series, times, values, read_points, **bounds)
    expected = {
        (numbers[j], names[j], int(times[i])): values[i, j]
        for i in range(rows)
        for j in range(len(names))
        if np.isfinite(values[i, j])
    }
    assert len(listed) == len(found)
    assert {key: point.value for key, point in found.items()} == expected
    assert all(chunk.points <= bounds["max_points"] for chunk in chunks)
    assert all(len(chunk.body) <= bounds["max_bytes"] + 500 or chunk.points == 1 for chunk in chunks)
    for (number, name, _), point in found.items():
        assert point.attributes == {"kind": "grad", "name": point.attributes["name"], "index": number}
        assert point.kind == ("sum" if name == "b" else "gauge")
        assert point.start_ns == (START if name == "b" else 0)
        assert point.resource == {"run.id": "r", "dist.rank": 3}


def test_columns_choose_series(read_points):
    series = block(group("a", 10))
    _, found, _ = encode(series, [START], [[7.0, 8.0]], read_points, columns=np.array([9, 2], np.uint32))
    assert {key[0]: p.value for key, p in found.items()} == {9: 7.0, 2: 8.0}


def test_a_row_without_any_value_makes_no_request(read_points):
    chunks, _, _ = encode(block(group("a", 2)), [START], [[np.nan, np.nan]], read_points)
    assert chunks == []


def test_a_block_grows_and_ignores_what_it_knows(read_points):
    series = block(group("a", 3))
    old = list(series._points)
    series.extend(Definition(5, 2, {}, START, (group("a", 3, offset=2),)))
    assert len(series) == 5
    assert series._points[:3] == old
    _, found, _ = encode(series, [START], [[0.0, 1.0, 2.0, 3.0, 4.0]], read_points)
    assert {key[0]: p.value for key, p in found.items()} == {i: float(i) for i in range(5)}


def test_a_definition_that_leaves_a_gap_is_refused():
    with pytest.raises(ValueError, match="lacks 1 series before series 4"):
        block(group("a", 3)).extend(Definition(5, 4, {}, START, ()))


def test_ends_mark_every_series_without_a_value(read_points):
    series = block(group("a", 30), group("b", 5, "counter", 100))
    chunks = list(series.ends(START, (), 8, 4 << 20))
    found = read_points(Request("metrics", *chunk) for chunk in chunks)
    assert len({(p.name, p.attributes["index"]) for p in found}) == len(found) == 35
    assert all(p.ended and np.isnan(p.value) and p.time_ns == START for p in found)
    assert all(chunk.points <= 8 for chunk in chunks)


def test_templates_that_are_not_used_again_are_forgotten(read_points):
    series = block(group("a", 2000))
    rng = np.random.default_rng(0)
    for _ in range(120):
        values = np.where(rng.random(2000) < 0.9, 1.0, np.nan)
        encode(series, [START], [values], lambda requests: [])
    assert series._cached == sum(run.columns.size for runs in series._templates.values() for run in runs)
    assert series._cached <= 102_000
