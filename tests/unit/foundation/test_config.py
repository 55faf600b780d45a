# SPDX-License-Identifier: Apache-2.0
"""Settings are checked where they enter."""

from pathlib import Path

import pytest

from glideslope.config import Capture, Export, Home, Ports
from glideslope.errors import ConfigError


def test_ports_move_together() -> None:
    moved = Ports.from_env({"GLIDESLOPE_PORT_OFFSET": "1000"})
    assert (moved.live, moved.server) == (9428, 9700)
    assert moved.url("live") == "http://127.0.0.1:9428"


def test_no_two_programs_share_a_port() -> None:
    ports = Ports()
    numbers = [getattr(ports, name) for name in Ports.__slots__]
    assert len(set(numbers)) == len(numbers)


def test_an_offset_that_leaves_the_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="GLIDESLOPE_PORT_OFFSET"):
        Ports().shifted(60000)


def test_home_defaults_to_the_person_s_folder_and_follows_the_variable(tmp_path: Path) -> None:
    assert Home.from_env({}).root == Path.home() / ".glideslope"
    assert Home.from_env({"GLIDESLOPE_HOME": str(tmp_path)}).bin == tmp_path / "bin"


def test_the_endpoint_follows_opentelemetry_and_else_the_local_collector() -> None:
    assert Export.from_env({}).endpoint == "http://127.0.0.1:4318"
    assert Export.from_env({"GLIDESLOPE_PORT_OFFSET": "10"}).endpoint == "http://127.0.0.1:4328"
    assert (
        Export.from_env({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example:4318/"}).endpoint == "https://c.example:4318"
    )


@pytest.mark.parametrize("text", ["localhost:4318", "grpc://x:4317", "http://", "4318"])
def test_an_endpoint_that_is_no_http_url_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        Export.from_env({"OTEL_EXPORTER_OTLP_ENDPOINT": text})


@pytest.mark.parametrize("name", ["layers_every", "trace_first", "trace_every"])
def test_negative_cadences_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"GLIDESLOPE_{name.upper()}"):
        Capture.from_env({f"GLIDESLOPE_{name.upper()}": "-1"})
