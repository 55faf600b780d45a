# SPDX-License-Identifier: Apache-2.0
"""torch.compile: not one graph, break or recompilation more, and the values arrive all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from glideslope.config import Capture

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="aot_eager", **options)


def _train(what: str, steps: int = 5) -> dict[str, int]:
    """A training with one part compiled; returns what the compiler counted."""
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    forward: Callable[..., torch.Tensor] = model
    update: Callable[..., Any] = optimizer.step

    def backward(loss: torch.Tensor) -> torch.Tensor:
        loss.backward()
        return loss.detach()

    def whole_backward(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    def clip() -> torch.Tensor:
        return torch.nn.utils.clip_grad_norm_(list(model.parameters()), 1.0)

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        if what in ("loss and backward", "traced backward"):
            whole_backward(x)
        else:
            backward(forward(x).square().mean())
        clip()
        update()

    traced = torch._dynamo.config.trace_autograd_ops
    if what == "model, fullgraph":
        forward = _compiled(model, fullgraph=True)
    elif what == "blocks":
        for block in model:
            block.compile(backend="aot_eager")
    elif what == "optimizer step":
        update = _compiled(optimizer.step)
    elif what == "loss and backward":
        whole_backward = _compiled(whole_backward)
    elif what == "traced backward":
        torch._dynamo.config.trace_autograd_ops = True
        whole_backward = _compiled(whole_backward, fullgraph=True)
    elif what == "clipping":
        clip = _compiled(clip)
    elif what == "whole step":
        step = _compiled(step)
    try:
        for _ in range(steps):
            step(torch.randn(3, 4))
    finally:
        torch._dynamo.config.trace_autograd_ops = traced
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": sum(counters["graph_break"].values()),
        "recompile limit": sum(count for key, count in counters["frames"].items() if "limit" in str(key)),
    }


@pytest.mark.parametrize(
    ("what", "steps_seen"),
    [
        ("model, fullgraph", 5),
        ("blocks", 5),
        ("optimizer step", 5),
        ("loss and backward", 5),
        ("traced backward", 5),
        ("clipping", 5),
        ("whole step", 5),
    ],
)
def test_the_compiler_counts_the_same_with_and_without_us(tape: Any, what: str, steps_seen: int) -> None:
    plain = _train(what)
    recorder = tape.start(settings=Capture(layers_every=1))
    watched = _train(what)
    tape.stop()
    assert watched["graphs"] == plain["graphs"]
    assert watched["breaks"] <= plain["breaks"]
    assert watched["recompile limit"] == plain["recompile limit"] == 0
    assert plain["graphs"] > 0
    assert [done.step for done in tape.steps] == list(range(1, steps_seen + 1))
    assert len(tape.layers) == steps_seen
    assert recorder.errors() == {}
    if what != "traced backward":  # there, backward is part of the graph and nobody calls it
        assert all(done.loss is not None and done.micro_steps == 1 for done in tape.steps)
    if what not in ("clipping", "whole step"):
        assert all(done.grad_norm is not None for done in tape.steps)
