# SPDX-License-Identifier: Apache-2.0
"""Whole processes: what a script prints, ranks under torchrun, silent children, imports that must not happen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORD = """
import json, os, sys, tempfile
from glideslope.capture import Recorder
from glideslope.config import Capture
assert "torch" not in sys.modules
folder = os.environ.get("EVENTS")
def sink(event):
    with open(os.path.join(folder, f"{os.getpid()}.jsonl"), "a") as file:
        file.write(json.dumps([type(event).__name__, os.environ.get("RANK"), getattr(event, "step", None),
            getattr(event, "loss", None), getattr(event, "grad_norm", None), getattr(event, "tokens", None),
            getattr(event, "layers", None)]) + "\\n")
if folder:
    recorder = Recorder(Capture(layers_every=2), sink, emit_layers=os.environ.get("RANK", "0") == "0")
    recorder.install()
    assert "torch" not in sys.modules
"""

FAILING = (
    RECORD
    + """
import warnings
import torch
from torch.utils.data import DataLoader, TensorDataset

class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1
    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("mistake in backward")

def main():
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scheduler.step()                                     # torch warns: the order is wrong
    for i, (x,) in enumerate(DataLoader(TensorDataset(torch.ones(6, 2)), batch_size=2)):
        loss = model(x).sum()
        if i == 2:
            loss = Broken.apply(loss)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(iter([]), 1.0)
        torch.nn.utils.clip_grad_norm_((p for p in ()), 1.0)  # torch warns: the generator is empty
        optimizer.step()
        print("loss", loss.item(), flush=True)
main()
"""
)


def test_output_traceback_and_exit_code_are_the_same_with_and_without_us(run_script: Any, tmp_path: Path) -> None:
    plain = run_script(FAILING)
    events = tmp_path / "events"
    events.mkdir()
    watched = run_script(FAILING, EVENTS=str(events))
    assert "mistake in backward" in plain.stderr and "empty generator" in plain.stderr
    assert watched.stderr == plain.stderr
    assert watched.stdout == plain.stdout
    assert watched.returncode == plain.returncode == 1
    assert list(events.iterdir())


RANKS = (
    RECORD
    + """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    data = TensorDataset(torch.randint(0, 10, (24, 5)))
    model = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Flatten(), torch.nn.Linear(20, 1))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    with open(os.path.join(os.environ["TRUTH"], f"{rank}.jsonl"), "w") as truth:
        for (ids,) in DataLoader(data, batch_size=3, sampler=DistributedSampler(data), num_workers=2):
            optimizer.zero_grad()
            loss = model(ids).square().mean()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            truth.write(json.dumps([loss.item(), norm.item()]) + "\\n")
    recorder.uninstall()
    assert recorder.errors() == {}, recorder.errors()
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
"""
)


def test_two_ranks_under_torchrun_with_workers_each_report_their_own_steps(run_script: Any, tmp_path: Path) -> None:
    events, truth = tmp_path / "events", tmp_path / "truth"
    events.mkdir()
    truth.mkdir()
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = run_script(RANKS, launcher=launcher, EVENTS=str(events), TRUTH=str(truth))
    assert done.returncode == 0, done.stderr
    files = sorted(events.iterdir())
    assert len(files) == 2  # neither the agent nor a worker wrote
    for file in files:
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        rank = rows[0][1]
        expected = [json.loads(line) for line in (truth / f"{rank}.jsonl").read_text().splitlines()]
        steps = [row for row in rows if row[0] == "StepDone"]
        assert [[row[3], row[4]] for row in steps] == expected
        assert [row[2] for row in steps] == [1, 2, 3, 4]
        assert [row[5] for row in steps] == [15] * 4
        layers = [row for row in rows if row[0] == "LayerStats"]
        assert [row[2] for row in layers] == ([2, 4] if rank == "0" else [])
        assert all(row[6] == ["0.weight", "2.weight", "2.bias"] for row in layers)


SHARDED = (
    RECORD
    + """
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    truth = open(os.path.join(os.environ["TRUTH"], f"{dist.get_rank()}.jsonl"), "w")
    for i in range(4):
        optimizer.zero_grad()
        loss = model(torch.ones(3, 4)).square().mean()
        loss.backward()
        if i % 2:
            norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).full_tensor()
            torch.nn.utils.clip_grads_with_norm_(list(model.parameters()), 1.0, norm)
            norm = norm.item()
        else:  # where torch leaves the norm a partial sum, knowing it would take a collective
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            replica = all(placement.is_replicate() for placement in norm.placements)
            norm = norm.full_tensor().item() if replica else None
        optimizer.step()
        truth.write(json.dumps([loss.item(), norm]) + "\\n")
    truth.close()
    recorder.uninstall()
    assert recorder.errors() == {}, recorder.errors()
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
"""
)


def test_norms_of_sharded_parameters_are_whole_or_left_out(run_script: Any, tmp_path: Path) -> None:
    events, truth = tmp_path / "events", tmp_path / "truth"
    events.mkdir()
    truth.mkdir()
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = run_script(SHARDED, launcher=launcher, EVENTS=str(events), TRUTH=str(truth))
    assert done.returncode == 0, done.stderr
    for file in events.iterdir():
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        expected = [json.loads(line) for line in (truth / f"{rows[0][1]}.jsonl").read_text().splitlines()]
        assert [[row[3], row[4]] for row in rows if row[0] == "StepDone"] == expected
        assert all(row[6] == ["0.weight", "0.bias", "1.weight", "1.bias"] for row in rows if row[0] == "LayerStats")


def test_a_recorder_that_waits_for_torch_patches_it_when_it_comes(run_script: Any, tmp_path: Path) -> None:
    script = (
        RECORD
        + """
import torch
assert hasattr(torch.autograd.backward, "__wrapped__")
weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(2):
    weight.sum().backward()
    optimizer.step()
print(recorder.step())
"""
    )
    done = run_script(script, EVENTS=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_a_recorder_that_is_uninstalled_before_torch_comes_never_patches_it(run_script: Any, tmp_path: Path) -> None:
    script = (
        RECORD
        + """
recorder.uninstall()
import torch
assert not hasattr(torch.autograd.backward, "__wrapped__")
"""
    )
    done = run_script(script, EVENTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
