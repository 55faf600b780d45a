# SPDX-License-Identifier: Apache-2.0
"""What logging costs the training thread, beside other trackers; writes its tables into docs/benchmarks.md.

    .venv/bin/python tests/bench/logging/run.py [--quick] [--only TOOL …] [--print] [--check]

Every tool runs in a fresh process and folder, all tools once in each round. The full run takes about ten minutes on a
quiet machine and needs `uv` for the environments of the other tools (`--venvs`); `--quick` takes two, has few calls and
only prints. `--check` tells whether the document is of this program's form.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import document
from figures import CALLS, COLUMNS, SIZES, STEPS_KILLED, Figures
from peers import PEERS, interpreter, make_environments, version
from processes import Job, Result, run

COMMAND = ".venv/bin/python tests/bench/logging/run.py"
OUTPUT = Path(__file__).parents[2] / "output"
FULL = {1: (1500, 0.001, 20), 100: (500, 0.002, 20), 10_000: (150, 0.010, 5)}
"""Steps of a round, seconds of other work between two, and first calls that do not count, by values a step."""
QUICK = {1: (200, 0.001, 3), 100: (100, 0.002, 3), 10_000: (20, 0.010, 3)}
NOT_KILLED = ("glideslope-sending", "control")


def jobs(tools: list[str], quick: bool) -> list[Job]:
    """One round: each size for all tools, then the kills."""
    limits = {"limit_s": 2.0, "at_least": 2} if quick else {}
    plan = QUICK if quick else FULL
    timed = [Job(tool, n, *plan[n], **limits) for n in SIZES for tool in tools]
    return timed + [
        Job(tool, 10, STEPS_KILLED, kill_pause_s(quick), kill=True) for tool in tools if tool not in NOT_KILLED
    ]


def kill_pause_s(quick: bool) -> float:
    """Seconds between the steps of a run that is killed."""
    return 0.002 if quick else 0.010


def measure(tools: list[str], rounds: int, minutes: float, quick: bool, venvs: Path) -> list[Result]:
    """All rounds that fit into the time; tells on standard error how far it is."""
    found: list[Result] = []
    began = time.monotonic()
    for turn in range(rounds):
        if turn and (time.monotonic() - began) * (turn + 1) / turn > 60 * minutes:
            print(f"stopped after {turn} of {rounds} rounds, because one more would not fit", file=sys.stderr)
            break
        for job in jobs(tools, quick):
            if job.kill and turn == 2:
                continue
            found.append(run(job, interpreter(job.tool, venvs)))
            what = "kill" if job.kill else f"{job.count:,} values"
            told = f"{time.monotonic() - began:5.0f} s  round {turn + 1} of {rounds}  {job.tool}, {what}"
            print(f"{told:<75}", end="\n" if not sys.stderr.isatty() else "\r", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one round of few calls; prints instead of writing")
    parser.add_argument("--only", nargs="+", choices=CALLS, default=list(CALLS), metavar="TOOL", help="prints only")
    parser.add_argument("--rounds", type=int, default=0, help="default 3, with --quick 1")
    parser.add_argument("--minutes", type=float, default=11.5, help="no further round is begun that would end later")
    parser.add_argument("--venvs", type=Path, default=OUTPUT / "bench-venvs", help="where the environments are kept")
    parser.add_argument("--print", action="store_true", dest="printed", help="print instead of writing")
    parser.add_argument("--results", type=Path, default=OUTPUT / "bench-logging.json", help="where raw times are kept")
    parser.add_argument("--again", action="store_true", help="make the tables from the raw times that are there")
    parser.add_argument("--check", action="store_true", help="tell what is wrong with the document")
    chosen = parser.parse_args()
    if chosen.check:
        rows = [f"| {tool} | {version(tool) if tool in PEERS else ''}" for tool in CALLS]
        wrong = document.faults("logging", COLUMNS, rows)
        print("\n".join(wrong) or "the document is of the program's form")
        return 1 if wrong else 0
    if chosen.again:
        results = [Result(**one) for one in json.loads(chosen.results.read_text())]
    else:
        make_environments(chosen.only, chosen.venvs)
        results = measure(
            chosen.only, chosen.rounds or (1 if chosen.quick else 3), chosen.minutes, chosen.quick, chosen.venvs
        )
        chosen.results.parent.mkdir(parents=True, exist_ok=True)
        chosen.results.write_text(json.dumps([asdict(one) for one in results]))
    text = Figures(results).text(COMMAND, kill_pause_s(chosen.quick))
    if chosen.quick or chosen.printed or chosen.only != list(CALLS):
        print(text)
    else:
        document.write("logging", COMMAND, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
