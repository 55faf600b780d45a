# SPDX-License-Identifier: Apache-2.0
"""A collector that is killed again and again under a trainer that goes on costs no value."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reconcile import ROUNDS, Killable, Trainer, ended_exactly, seeded

from glideslope.store.victoria import Victoria


def test_a_collector_that_is_killed_at_random_moments_misses_and_doubles_nothing(
    private_stack: Callable[..., Any], tmp_path: Path
) -> None:
    rng, stack = seeded(), private_stack()
    programs = Killable(stack, "live", "collector")
    trainer = Trainer(tmp_path, stack.otlp_http, "r")
    try:
        trainer.wait_for_steps(100)
        with Victoria(stack.live) as store:
            for _ in range(ROUNDS):
                time.sleep(rng.uniform(0.0, 2.0))
                programs.kill("collector")
                programs.start("collector")
            ended_exactly(store, trainer)
    finally:
        trainer.kill()
        programs.stop()
