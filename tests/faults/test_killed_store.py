# SPDX-License-Identifier: Apache-2.0
"""VictoriaMetrics, killed again and again under a trainer that goes on, loses nothing that it had acknowledged."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reconcile import ROUNDS, Killable, Trainer, ended_exactly, seeded

from glideslope.store.victoria import Victoria

RETAIN_S = 15.0
"""Shorter than the default, so that what is durable is forgotten within the test; up to 10.5 s were seen lost."""


def test_a_store_that_is_killed_at_random_moments_misses_and_doubles_nothing(
    private_stack: Callable[..., Any], tmp_path: Path
) -> None:
    rng, stack = seeded(), private_stack()
    programs = Killable(stack, "live", "collector")
    trainer = Trainer(tmp_path, stack.otlp_http, "r", retain_s=RETAIN_S)
    try:
        trainer.wait_for_steps(100)
        with Victoria(stack.live) as store:
            for number in range(ROUNDS):
                # Most lives are short; some are long enough for the trainer to forget what is durable.
                time.sleep(rng.uniform(RETAIN_S, RETAIN_S + 6) if number % 6 == 5 else rng.uniform(0.2, 4.0))
                programs.kill("live")
                time.sleep(rng.uniform(0.0, 0.5))
                programs.start("live")
            replayed = ended_exactly(store, trainer)
    finally:
        trainer.kill()
        programs.stop()
    assert replayed > 0
