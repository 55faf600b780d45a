# SPDX-License-Identifier: Apache-2.0
"""Texts, settings and tags become log records and info series."""

import math

from glideslope.events import ConfigLogged, Heartbeat, TagsChanged, TextLogged

START = 1_800_000_000_000_000_000
MS = 1_000_000


def marks(record):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in record.attributes}


def test_a_text_carries_its_name_and_step(kit):
    kit.write(TextLogged(START, 7, "samples/1", "Once\n\tupon\x00 a time"))
    kit.write(TextLogged(START, 2.5, "a\nb", ""))
    kit.write(TextLogged(START, None, "c", "x"))
    first, second, third = kit.records()
    assert (first.event_name, first.body.string_value) == ("train.text", "Once\n\tupon\ufffd a time")
    assert (first.time_unix_nano, marks(first)) == (START, {"metric.name": "samples/1", "train.step": 7})
    assert first.trace_id
    assert marks(second)["train.step"] == 2.5
    assert "\n" not in marks(second)["metric.name"]
    assert not second.trace_id
    assert marks(third) == {"metric.name": "c"}


def test_a_long_text_is_cut_and_says_so(kit):
    kit.write(TextLogged(START, 1, "long", "é" * 100_000))
    (record,) = kit.records()
    body = record.body.string_value
    assert len(body.encode()) <= 65_536
    assert body.endswith(" … (cut: 200000 bytes)")


def test_steps_that_are_no_numbers_are_left_out(kit):
    kit.write(TextLogged(START, math.nan, "a", "b"))
    assert marks(kit.records()[0]) == {"metric.name": "a"}


def test_each_setting_is_a_record(kit):
    values = {"model/width": 512, "lr": 3e-4, "amp": True, "name": "x\u202ey", "big": 2**80, "bad": math.nan, "": "e"}
    kit.write(ConfigLogged(START, values))
    found = {marks(r)["config.key"]: marks(r)["config.value"] for r in kit.records()}
    assert found == {
        "model/width": "512",
        "lr": "0.0003",
        "amp": "true",
        "name": "x\ufffdy",
        "big": str(2**80),
        "bad": "nan",
        "(empty)": "e",
    }
    assert {r.event_name for r in kit.records()} == {"train.config"}
    assert kit.records()[0].body.string_value == "model/width = 512"


def test_large_configurations_travel_in_bounded_requests(kit):
    kit.write(ConfigLogged(START, {f"k{i}": "v" * 4000 for i in range(2000)}))
    requests = kit.requests(max_bytes=1 << 18)
    assert sum(r.points for r in requests) == 2000
    assert all(len(r.body) < 1 << 19 for r in requests)


def test_tags_are_records_and_info_series_until_they_are_removed(kit):
    kit.write(TagsChanged(START, ("a", "b")))
    kit.write(Heartbeat(START, 1))
    kit.write(TagsChanged(START + 10 * MS, ("c",), ("a", "never there")))
    kit.write(Heartbeat(START + 20 * MS, 1))
    kit.write(TagsChanged(START + 30 * MS, ("a",)))
    kit.write(Heartbeat(START + 40 * MS, 1))
    assert kit.series("train.run.tag", run_tag="a") == [1, 1]
    assert kit.series("train.run.tag", run_tag="b") == [1, 1, 1]
    assert kit.series("train.run.tag", run_tag="c") == [1, 1]
    ended = [(p.attributes, p.time_ns) for p in kit.points("train.run.tag") if p.ended]
    assert ended == [({"run.tag": "a"}, START + 10 * MS)]
    changes = [(marks(r)["run.tag"], marks(r)["run.tag.change"]) for r in kit.records()]
    changed = [("a", "added"), ("b", "added"), ("c", "added"), ("a", "removed"), ("never there", "removed")]
    assert changes == [*changed, ("a", "added")]


def test_tags_without_end_do_not_take_the_heartbeat_s_room(kit):
    for number in range(2000):
        kit.write(TagsChanged(START, (f"t{number}",)))
    kit.write(Heartbeat(START, 1))
    assert len(kit.points("train.run.tag")) == 100
    assert kit.series("train.heartbeat") == [START / 1e9]
    assert kit.series("train.telemetry.drops", drop_class="metrics", drop_reason="budget") == [0, 1900]
