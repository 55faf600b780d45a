# SPDX-License-Identifier: Apache-2.0
"""The sitecustomize that `glideslope run` puts first: it chains the next one and leaves the process quiet."""

import os
import subprocess
import sys
from pathlib import Path

from glideslope.run.launch import BOOTSTRAP


def start(code: str, path: list[Path], home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "GLIDESLOPE_HOME": str(home),
        **more,
    }
    return subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60)


def test_a_sitecustomize_further_down_the_path_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.theirs = 'ran'")
    done = start("print(theirs)", [BOOTSTRAP, tmp_path], tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("ran\n", "", 0)


def test_a_process_that_never_trains_gets_no_torch_no_thread_and_no_file(tmp_path: Path) -> None:
    code = "import sys, threading; print('torch' in sys.modules, threading.active_count())"
    done = start(code, [BOOTSTRAP], tmp_path / "home")
    assert (done.stdout, done.stderr) == ("False 1\n", "")
    assert not (tmp_path / "home").exists()


def test_a_bad_setting_leaves_the_program_alone_with_one_warning(tmp_path: Path) -> None:
    done = start("print('mine')", [BOOTSTRAP], tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="nonsense")
    assert done.stdout == "mine\n"
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "OTEL_EXPORTER_OTLP_ENDPOINT='nonsense' is no HTTP URL" in done.stderr
