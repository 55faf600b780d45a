# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to the files: every record whose bytes are left is read, nothing else is, and nothing is raised."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import LayerStats, MetricsLogged, StepDone
from glideslope.ship import records, sync
from glideslope.ship.reader import START, SpoolReader
from glideslope.ship.spool import SpoolWriter, segment_path
from glideslope.testing import OtlpReceiver

RESOURCE = {"service.name": "t", "run.id": "r", "run.attempt": 0, "dist.rank": 0, "host.name": "h"}
TALLY = records.OVERHEAD + len(records.pack_tally([0] * 4))
Cells = list[tuple[int, tuple[int, int] | None]]
"""Bytes of a file, each with the (segment, offset) that it was written to; None for a byte that was put in."""


class Written(NamedTuple):
    """A spool in memory."""

    segments: list[bytes]

    def places(self) -> dict[tuple[int, int], int]:
        """End of each record by (segment, offset); the format is read here by hand."""
        found = {}
        for segment, data in enumerate(self.segments):
            at = 8
            while at < len(data):
                end = at + records.OVERHEAD + int.from_bytes(data[at + 8 : at + 12], "little")
                # A tally is no record to whoever reads.
                if data[at + 6] & 0x0F != records.TALLY:
                    found[segment, at] = end
                at = end
        return found


def written(steps: int, *, segment_bytes: int) -> Written:
    """A spool of real frames, in which names appear one after another; no value occurs twice."""
    with tempfile.TemporaryDirectory() as folder:
        spool = SpoolWriter(Path(folder) / "spool", quota_bytes=1 << 30, segment_bytes=segment_bytes)
        writer = EventWriter(RESOURCE, spool.append, start_ns=1)
        for number in range(1, steps + 1):
            now = 1_700_000_000_000_000_000 + number * 10_000_000
            writer.write(StepDone(number, now - 1_000, now, loss=number + 0.25))
            names = tuple(f"metric {index}" for index in range(1 + number // 3))
            writer.write(MetricsLogged(now, number, names, [number + 0.01 * index for index in range(len(names))]))
            layers = tuple(f"layer {index}" for index in range(1 + number % 5))
            values = np.array([[-number - 0.01 * index] for index in range(len(layers))])
            writer.write(LayerStats(number, now, "grad", layers, ("norm",), values))
        spool.close()
        data = [path.read_bytes() for path in sorted(spool.directory.glob("*.seg"))]
    return Written(data)


SMALL = written(4, segment_bytes=1_500)
LARGE = written(9, segment_bytes=3_000)


def stored(folder: Path, files: list[bytes]) -> None:
    for number, data in enumerate(files, 1):
        segment_path(folder, number).write_bytes(data)


def read(folder: Path, max_bytes: int = 1 << 20) -> tuple[list[bytes], SpoolReader]:
    reader = SpoolReader(folder, live=lambda: False)
    found: list[bytes] = []
    while True:
        before = reader.position
        found += [record.payload for record in reader.read(max_bytes)]
        if reader.position == before:
            reader.close()
            return found, reader


def survivors(files: list[Cells], original: Written) -> list[bytes]:
    """Payloads of the records all of whose bytes are still there, side by side, in the order of the files."""
    places = original.places()
    found = []
    for cells in files:
        at = 0
        while at < len(cells):
            origin = cells[at][1]
            end = places.get(origin, 0) if origin else 0
            if origin and end:
                size = end - origin[1]
                wanted = [(origin[0], origin[1] + index) for index in range(size)]
                data = original.segments[origin[0]][origin[1] : end]
                now = cells[at : at + size]
                if [cell[1] for cell in now] == wanted and bytes(cell[0] for cell in now) == data:
                    found.append(data[records.OVERHEAD :])
                    at += size
                    continue
            at += 1
    return found


def cells_of(original: Written) -> list[Cells]:
    return [
        [(byte, (segment, offset)) for offset, byte in enumerate(data)]
        for segment, data in enumerate(original.segments)
    ]


def test_the_oracle_sees_an_undamaged_spool_as_the_reader_does(tmp_path: Path) -> None:
    for original in (SMALL, LARGE):
        stored(tmp_path, original.segments)
        found, reader = read(tmp_path)
        assert found == survivors(cells_of(original), original)
        assert len(found) == len(original.places()) > 10
        assert len(original.segments) > 2
        assert (reader.damaged, reader.damaged_bytes) == (0, 0)


def test_a_bit_flipped_anywhere_costs_its_own_record_at_most(tmp_path: Path) -> None:
    """Every byte of the second of several segments, the eight bits in turn."""
    places = SMALL.places()
    whole = survivors(cells_of(SMALL), SMALL)
    data = SMALL.segments[1]
    stored(tmp_path, SMALL.segments)
    starts = sorted((offset, end) for (segment, offset), end in places.items() if segment == 1)
    for position in range(len(data)):
        lost = [data[a + records.OVERHEAD : b] for a, b in starts if a <= position < b]
        # The unused byte of a header is covered by the checksum, too.
        for bit in (position % 8,):
            broken = bytearray(data)
            broken[position] ^= 1 << bit
            segment_path(tmp_path, 2).write_bytes(broken)
            found, reader = read(tmp_path)
            expected = list(whole)
            for payload in lost:
                expected.remove(payload)
            assert sorted(found) == sorted(expected), (position, bit)
            assert reader.damaged == 1
            itself = 8 if position < 8 else TALLY
            assert reader.damaged_bytes == (sum(map(len, lost)) + records.OVERHEAD * len(lost) or itself)


@pytest.mark.parametrize("segment", range(len(SMALL.segments)))
def test_a_segment_cut_anywhere_keeps_the_whole_records_before_the_cut(tmp_path: Path, segment: int) -> None:
    cells = cells_of(SMALL)
    before, after = survivors(cells[:segment], SMALL), survivors(cells[segment + 1 :], SMALL)
    stored(tmp_path, SMALL.segments)
    for size in range(len(SMALL.segments[segment])):
        segment_path(tmp_path, segment + 1).write_bytes(SMALL.segments[segment][:size])
        found, _ = read(tmp_path)
        assert found == before + survivors([cells[segment][:size]], SMALL) + after, size


Damage = Callable[[list[Cells]], None]


@st.composite
def damages(draw: st.DrawFn) -> tuple[str, Damage]:
    """One way to hurt a spool, and its name."""
    kind = draw(
        st.sampled_from(("flip", "zero", "noise", "cut", "prefix", "insert", "remove", "swap", "double", "delete"))
    )
    which, other = draw(st.integers(0, 1_000)), draw(st.integers(0, 1_000))
    place, span = draw(st.floats(0, 1)), draw(st.integers(1, 400))
    noise = draw(st.binary(min_size=1, max_size=400))

    def hurt(files: list[Cells]) -> None:
        if not files:
            return
        cells = files[which % len(files)]
        at = min(int(place * len(cells)), max(0, len(cells) - 1))
        if kind == "flip" and cells:
            cells[at] = (cells[at][0] ^ (1 << span % 8), cells[at][1])
        elif kind == "zero":
            cells[at : at + span] = [(0, origin) for _, origin in cells[at : at + span]]
        elif kind == "noise":
            over = cells[at : at + len(noise)]
            cells[at : at + len(over)] = [
                (new, origin) for new, (_, origin) in zip(noise[: len(over)], over, strict=True)
            ]
        elif kind == "cut":
            del cells[at:]
        elif kind == "prefix":
            cells[:0] = [(byte, None) for byte in noise]
        elif kind == "insert":
            cells[at:at] = [(byte, None) for byte in noise]
        elif kind == "remove":
            del cells[at : at + span]
        elif kind == "swap":
            a, b = which % len(files), other % len(files)
            files[a], files[b] = files[b], files[a]
        elif kind == "double":
            files.append(list(cells))
        elif kind == "delete":
            files.remove(cells)

    return kind, hurt


def damaged(original: Written, hurts: list[tuple[str, Damage]]) -> list[Cells]:
    files = cells_of(original)
    for _, hurt in hurts:
        hurt(files)
    return files


def raw(files: list[Cells]) -> list[bytes]:
    return [bytes(byte for byte, _ in cells) for cells in files]


@settings(max_examples=200, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(damages(), min_size=1, max_size=6), st.sampled_from((64, 700, 1 << 20)))
def test_any_mix_of_damages_leaves_what_is_intact(hurts: list[tuple[str, Damage]], max_bytes: int) -> None:
    files = damaged(LARGE, hurts)
    with tempfile.TemporaryDirectory() as folder:
        stored(Path(folder), raw(files))
        found, reader = read(Path(folder), max_bytes)
        assert found == survivors(files, LARGE)
        kept = sum(len(payload) + records.OVERHEAD for payload in found)
        # What was not read was counted, but for the headers and tallies of the segments that have theirs.
        rest = sum(len(cells) for cells in files) - kept - reader.damaged_bytes
        assert any(rest == 8 * heads + TALLY * tallies for heads in range(99) for tallies in range(99))


def test_what_is_missing_is_known_by_class_at_the_next_tally(tmp_path: Path) -> None:
    """Deleted segments and damaged records are counted in points; nothing is counted twice by reading again."""
    stored(tmp_path, SMALL.segments)
    whole, _ = read(tmp_path)
    segment_path(tmp_path, 2).unlink()
    third = bytearray(SMALL.segments[2])
    third[-3] ^= 4
    segment_path(tmp_path, 3).write_bytes(third)
    left, reader = read(tmp_path)
    lost = list(whole)
    for payload in left:
        lost.remove(payload)
    points = sum(records.context_and_count(payload)[1] for payload in lost if payload[8:9] != b"{")
    missing = reader.take_missing()
    assert set(missing) <= set(records.DROP_CLASSES)
    assert 0 < sum(missing.values()) <= points
    assert reader.take_missing() == {}
    reader.seek(START)
    while reader.read(1 << 20):
        pass
    assert reader.take_missing() == missing
    assert read(tmp_path)[1].take_missing() == missing


def samples(receiver: OtlpReceiver) -> set[tuple[str, str, float, int]]:
    return {
        (point.name, json.dumps(sorted(point.attributes.items())), point.value, point.time_ns)
        for point in receiver.metrics()
        if point.name in ("train.loss", "train.metric", "train.layer")
    }


def shipped(files: list[bytes], receiver: OtlpReceiver) -> tuple[set[tuple[str, str, float, int]], Any]:
    """What arrives of a spool at a real receiver."""
    receiver.clear()
    with tempfile.TemporaryDirectory() as folder:
        stored(Path(folder), files)
        report = sync(Path(folder), RequestEncoder, Export(endpoint=receiver.endpoint), retain_s=3600)
    return samples(receiver), report


@pytest.fixture(scope="module")
def listening() -> Any:
    with OtlpReceiver() as running:
        yield running


def test_a_damaged_definition_never_gives_a_value_a_wrong_name(listening: OtlpReceiver) -> None:
    """Each definition of the spool in turn, in each segment."""
    whole, report = shipped(LARGE.segments, listening)
    assert len(whole) > 50
    assert report.damaged == report.dropped == 0
    definitions = [
        (segment, offset, end)
        for (segment, offset), end in LARGE.places().items()
        if records.is_definition(LARGE.segments[segment][offset + 6])
    ]
    assert len(definitions) > 20
    lost = 0
    for segment, offset, end in definitions:
        broken = bytearray(LARGE.segments[segment])
        broken[(offset + end) // 2] ^= 0x40
        files = [*LARGE.segments[:segment], bytes(broken), *LARGE.segments[segment + 1 :]]
        found, report = shipped(files, listening)
        assert found <= whole
        assert report.damaged >= 1
        assert report.remaining_bytes == 0
        # What needed the lost definition was set aside and counted.
        assert len(whole - found) <= report.dropped
        lost += len(whole - found)
    assert lost > 0, "some definition was needed"


@settings(
    max_examples=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(hurts=st.lists(damages(), min_size=1, max_size=5))
def test_whatever_is_shipped_of_a_damaged_spool_was_logged_so(
    hurts: list[tuple[str, Damage]], listening: OtlpReceiver
) -> None:
    whole = _whole(listening)
    found, report = shipped(raw(damaged(LARGE, hurts)), listening)
    assert found <= whole
    assert report.remaining_bytes == 0


_known: dict[str, set[tuple[str, str, float, int]]] = {}


def _whole(receiver: OtlpReceiver) -> set[tuple[str, str, float, int]]:
    if "whole" not in _known:
        _known["whole"] = shipped(LARGE.segments, receiver)[0]
    return _known["whole"]


@settings(max_examples=60, deadline=None, database=None)
@given(st.data())
def test_a_reader_that_follows_a_living_writer_gets_all_that_is_intact(data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "spool"
        writer = SpoolWriter(place, quota_bytes=1 << 30, segment_bytes=data.draw(st.sampled_from((300, 5_000))))
        reader = SpoolReader(place, live=lambda: True)
        found: list[int] = []
        expected: list[int] = []
        number = 0
        kind = 0x02
        for _ in range(data.draw(st.integers(1, 12))):
            fresh: list[tuple[Path, int, int, int]] = []
            for _ in range(data.draw(st.integers(1, 6))):
                writer.append(kind, np.uint32([1, 1, number, 0]).tobytes() + bytes(20))
                path = max(place.glob("*.seg"))
                end = path.stat().st_size
                fresh.append((path, end - records.OVERHEAD - 36, end, number))
                number += 1
            hurt: set[int] = set()
            # The newest is left whole: a bad tail is waited for, in case that it is being written.
            for path, start, end, which in fresh[:-1]:
                if data.draw(st.integers(0, 3)) == 0:
                    hurt.add(which)
                    at = data.draw(st.integers(start, end - 1))
                    broken = bytearray(path.read_bytes())
                    broken[at] ^= 1 << data.draw(st.integers(0, 7))
                    with path.open("r+b") as file:
                        file.seek(at)
                        file.write(broken[at : at + 1])
            expected += [which for *_, which in fresh if which not in hurt]
            moved = True
            while moved:
                before = reader.position
                some = reader.read(data.draw(st.sampled_from((1, 100, 1 << 20))))
                found += [int(np.frombuffer(record.payload, np.uint32, 3)[2]) for record in some]
                moved = reader.position != before
            assert found == expected
        writer.close()
        reader.close()
