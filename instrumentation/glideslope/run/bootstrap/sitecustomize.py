# SPDX-License-Identifier: Apache-2.0
"""Put first on PYTHONPATH by `glideslope run`: instruments training processes at interpreter start.

In: nothing. Out: nothing; prints nothing and raises nothing, whatever happens. Another `sitecustomize` further down
the path is run as well, since Python itself runs only the first one it finds.
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_the_next_one() -> None:
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _instrument() -> None:
    from glideslope.run.gate import reason_to_stay_out  # noqa: PLC0415  # must not run before the next sitecustomize

    if reason_to_stay_out() is None:
        from glideslope.run.instrumentor import PyTorchInstrumentor  # noqa: PLC0415  # costs 50 ms; only for trainers

        PyTorchInstrumentor().instrument()


with contextlib.suppress(ImportError):
    _run_the_next_one()
with contextlib.suppress(Exception):  # a broken installation of ours must not stop a training
    _instrument()
