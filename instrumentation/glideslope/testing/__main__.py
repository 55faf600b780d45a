# SPDX-License-Identifier: Apache-2.0
"""`python -m glideslope.testing gpus --uuids A,B`: serve simulated GPUs until SIGTERM or Ctrl-C.

In: options. Out: pages on loopback; exit code 0 when stopped, 1 with a message when it cannot start.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from glideslope.config import Ports
from glideslope.errors import GlideslopeError
from glideslope.testing.gpus import LoadOf, SimulatedGpus
from glideslope.testing.load import LoadFromStore, load_from_file, load_from_processes


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m glideslope.testing")
    commands = parser.add_subparsers(required=True)
    gpus = commands.add_parser("gpus", help="serve simulated DCGM exporter pages")
    gpus.add_argument("--uuids", required=True, help="GPU UUIDs by local rank, separated by commas")
    gpus.add_argument("--port", type=int, default=None, help="port on loopback; default that of the GPU exporter")
    gpus.add_argument("--store", metavar="URL", help="take the load from the ranks' series in this live store")
    gpus.add_argument("--run", default="", metavar="ID", help="with --store: of this run only")
    gpus.add_argument("--load-file", type=Path, metavar="FILE", help="take the load from a JSON file")
    return parser.parse_args()


def main() -> int:
    """Serve until told to stop."""
    options = _arguments()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    store: LoadFromStore | None = None
    try:
        load: LoadOf
        if options.store:
            load = store = LoadFromStore(options.store, options.run)
        elif options.load_file:
            load = load_from_file(options.load_file)
        else:
            load = load_from_processes()
        port = Ports.from_env().gpu_exporter if options.port is None else options.port
        with SimulatedGpus([text for text in options.uuids.split(",") if text], load, port=port) as served:
            sys.stdout.write(f"Serving {len(served.gpus)} simulated GPUs on {served.url}\n")
            sys.stdout.flush()
            stopped.wait()
    except (GlideslopeError, OSError) as error:
        sys.stderr.write(f"glideslope.testing: {error}\n")
        return 1
    finally:
        if store is not None:
            store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
