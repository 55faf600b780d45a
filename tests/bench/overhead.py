# SPDX-License-Identifier: Apache-2.0
"""What instrumentation costs a training: step time with and without it, interleaved in one process.

Run it: `python tests/bench/overhead.py [--steps N] [--rounds N] [--threads N] [--cpu] [--sink null|module:function]`.
In: nothing. Out: a table on stdout; exit code 0.

A ~10M-parameter transformer trains on random tokens. Each round is a pair of equally long stretches, one plain and one
watched, in an order that alternates, so that drift of the machine hits both alike. The figure is the median over rounds
of the ratio of their median step times; the spread of plain against plain (A/A) says what the machine can resolve.
`--cpu` compares process CPU time instead of wall time: use it on a machine that others use at the same time.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from glideslope.capture import Recorder
from glideslope.config import Capture

VOCABULARY, CONTEXT, WIDTH, LAYERS = 2048, 64, 320, 7


class Transformer(torch.nn.Module):
    """A causal transformer of about ten million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.positions = torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        mask = torch.nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        return self.head(x)


class Training:
    """The same loop for both sides."""

    def __init__(self, batch: int, clock: Callable[[], float]) -> None:
        torch.manual_seed(0)
        self.model = Transformer()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        data = TensorDataset(torch.randint(0, VOCABULARY, (4096, CONTEXT + 1)))
        self.batches = self._forever(DataLoader(data, batch_size=batch))
        self.clock = clock

    @staticmethod
    def _forever(loader: Any) -> Iterator[torch.Tensor]:
        while True:
            for (ids,) in loader:
                yield ids

    def run(self, steps: int) -> list[float]:
        """Seconds of each of `steps` steps."""
        took = []
        for _ in range(steps):
            started = self.clock()
            ids = next(self.batches)
            self.optimizer.zero_grad()
            logits = self.model(ids[:, :-1])
            functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            took.append(self.clock() - started)
        return took


@contextmanager
def recorded(settings: Capture, sink: Callable[[Any], None], spent: list[float]) -> Iterator[None]:
    """Capture alone, with a sink of choice; adds the seconds that callbacks say they took to `spent`."""
    recorder = Recorder(settings, sink)
    recorder.install()
    try:
        yield
    finally:
        recorder.uninstall()
        spent.append(recorder.overhead_s)
        if recorder.errors():
            raise SystemExit(f"callbacks failed: {dict(recorder.errors())}")


def _sink(name: str) -> Callable[[Any], None]:
    if name == "null":
        return lambda event: None
    module, _, attribute = name.partition(":")
    found: Callable[[Any], None] = getattr(importlib.import_module(module), attribute)
    return found


def compare(
    training: Training, steps: int, rounds: int, watched: Callable[[], Any]
) -> tuple[list[float], list[float], list[float]]:
    """Median plain step per round, ratio watched/plain per round, ratio plain/plain per round."""
    plains, ratios, same = [], [], []
    for i in range(rounds):
        stretches = {}
        for side in ("plain", "watched", "again")[:: 1 if i % 2 else -1]:
            if side == "watched":
                with watched():
                    stretches[side] = statistics.median(training.run(steps))
            else:
                stretches[side] = statistics.median(training.run(steps))
        base = (stretches["plain"] + stretches["again"]) / 2
        plains.append(base)
        ratios.append(stretches["watched"] / base)
        same.append(stretches["again"] / stretches["plain"])
    return plains, ratios, same


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="steps of one stretch")
    parser.add_argument("--rounds", type=int, default=7, help="pairs of stretches per row")
    parser.add_argument("--batch", type=int, default=4, help="sequences of 64 tokens per step")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--cpu", action="store_true", help="process CPU time instead of wall time")
    parser.add_argument("--sink", default="null", help="null, or module:function that takes each event")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    training = Training(options.batch, time.process_time if options.cpu else time.perf_counter)
    sink = _sink(options.sink)
    training.run(5)
    parameters = sum(p.numel() for p in training.model.parameters())
    clock = "process CPU time" if options.cpu else "wall time"
    print(f"{parameters / 1e6:.1f}M parameters, batch {options.batch} x {CONTEXT} tokens, {clock}, sink {options.sink}")
    print(f"{'layers every':>12} {'step ms':>9} {'ratio':>8} {'A/A':>15} {'callbacks ms/step':>18} {'share':>7}")
    for every in (0, 10, 1):
        spent: list[float] = []
        settings = Capture(layers_every=every)
        plains, ratios, same = compare(
            training, options.steps, options.rounds, lambda s=settings, t=spent: recorded(s, sink, t)
        )
        step = statistics.median(plains)
        callbacks = sum(spent) / (options.steps * options.rounds)
        spread = f"{min(same):.3f}..{max(same):.3f}"
        ratio = statistics.median(ratios)
        print(f"{every:>12} {step * 1e3:>9.2f} {ratio:>8.4f} {spread:>15}", end=" ")
        print(f"{callbacks * 1e3:>18.3f} {callbacks / step:>7.2%}", flush=True)


if __name__ == "__main__":
    main()
