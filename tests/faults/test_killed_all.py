# SPDX-License-Identifier: Apache-2.0
"""Trainer, collector and store killed at the same moment: the next attempt and `sync` bring everything."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reconcile import ROUNDS, Killable, Trainer, seeded, settle

from glideslope.config import Export
from glideslope.emit import RequestEncoder
from glideslope.ship import sync
from glideslope.store.victoria import Victoria


def test_a_node_whose_processes_all_die_at_once_misses_and_doubles_nothing(
    private_stack: Callable[..., Any], tmp_path: Path
) -> None:
    rng, stack = seeded(), private_stack()
    programs = Killable(stack, "live", "collector")
    trainers: list[Trainer] = []
    replayed = 0
    try:
        with Victoria(stack.live) as store:
            for attempt in range(ROUNDS):
                trainers.append(Trainer(tmp_path, stack.otlp_http, "r", attempt))
                trainers[-1].wait_for_steps(10)
                time.sleep(rng.uniform(0.0, 2.0))
                trainers[-1].process.kill()
                programs.kill("live", "collector")
                trainers[-1].process.communicate()
                programs.start("live", "collector")
                report = sync(tmp_path / "spool", RequestEncoder, Export(endpoint=stack.otlp_http))
                assert (report.remaining_bytes, report.dropped, report.living) == (0, 0, 0), report
                replayed += report.replayed_points
                total = settle(store, trainers[-1:], 10)
                assert total.exact, (attempt, total)
            total = settle(store, trainers, 10)
    finally:
        for trainer in trainers:
            trainer.kill()
        programs.stop()
    print(f"rounds={ROUNDS} {total} replayed={replayed}")
    assert total.exact, total
    assert total.points > 10 * ROUNDS
