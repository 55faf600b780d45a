# SPDX-License-Identifier: Apache-2.0
"""The VictoriaLogs client against the real program."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from glideslope.errors import StoreError
from glideslope.store.logs import VictoriaLogs


@pytest.fixture(scope="module")
def first_ns() -> int:
    return time.time_ns() - 60_000_000_000


@pytest.fixture(scope="module")
def logs(logs_url: str, first_ns: int) -> Iterator[VictoriaLogs]:
    """A client of a store that holds ten records of rank 0 and ten of rank 1, 1 s + 1 ns apart."""
    with VictoriaLogs(logs_url, timeout_s=10) as client:
        for rank in (0, 1):
            message = ExportLogsServiceRequest()
            group = message.resource_logs.add()
            group.resource.attributes.add(key="run.id").value.string_value = "r1"
            group.resource.attributes.add(key="dist.rank").value.int_value = rank
            scope = group.scope_logs.add()
            for index in range(10):
                record = scope.log_records.add(
                    time_unix_nano=first_ns + index * 1_000_000_001, severity_number=9, event_name="train.run.start"
                )
                record.body.string_value = f"record {index} of rank {rank}"
            client.write_otlp(message.SerializeToString())
        client.flush()
        yield client


def test_records_come_back_with_fields_message_and_nanoseconds(logs: VictoriaLogs, first_ns: int) -> None:
    records = list(logs.query('"run.id":r1 "dist.rank":1 | sort by (_time)'))
    assert [record.message for record in records] == [f"record {index} of rank 1" for index in range(10)]
    assert [record.time_ns for record in records] == [first_ns + index * 1_000_000_001 for index in range(10)]
    assert records[0].fields["run.id"] == "r1"


def test_time_range_and_limit_narrow_the_answer(logs: VictoriaLogs, first_ns: int) -> None:
    end = first_ns + 3 * 1_000_000_001
    assert len(list(logs.query("*", start_ns=first_ns, end_ns=end))) == 6
    assert len(list(logs.query("*", limit=4))) == 4


def test_values_of_a_field_are_counted(logs: VictoriaLogs) -> None:
    assert logs.field_values("dist.rank") == {"0": 10, "1": 10}


def test_a_bad_expression_says_what_is_wrong(logs: VictoriaLogs) -> None:
    with pytest.raises(StoreError, match="status 400"):
        list(logs.query("| |"))


def test_health_is_true_for_a_healthy_server(logs: VictoriaLogs) -> None:
    assert logs.health()
