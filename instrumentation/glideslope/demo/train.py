# SPDX-License-Identifier: Apache-2.0
"""Train a small GPT on the English text that ships with Python; a plain script that does not know glideslope.

    torchrun --nproc-per-node 2 train.py --steps 300
    python train.py --steps 50

`--truth FILE` writes what the loop itself saw of each step, one JSON object a line, to FILE.rank<r>: the independent
record that tests compare telemetry with. `--incident nan|spike|stall|crash` breaks the training at `--incident-step`.
"""

import argparse
import json
import math
import os
import pydoc_data.topics
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

VOCABULARY = 128


class Attention(nn.Module):
    """Causal self-attention over (batch, time, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, width) to the same shape."""
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, width) to the same shape."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A small decoder-only transformer over ASCII characters."""

    def __init__(self, width: int, depth: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Map int64 ids (batch, time) to logits (batch, time, VOCABULARY)."""
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Text(IterableDataset):
    """Random windows of Python's documentation, different on each rank: pairs of int64 (time,) inputs and targets."""

    def __init__(self, length: int, seed: int, stall_after: int, stall_s: float) -> None:
        text = "\n".join(pydoc_data.topics.topics.values()).encode("ascii", "ignore")
        self.ids = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        self.length, self.seed, self.stall_after, self.stall_s = length, seed, stall_after, stall_s

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        source = torch.Generator().manual_seed(self.seed)
        served = 0
        while True:
            if self.stall_after and served >= self.stall_after:
                time.sleep(self.stall_s)
            at = int(torch.randint(len(self.ids) - self.length - 1, (1,), generator=source))
            window = self.ids[at : at + self.length + 1]
            served += 1
            yield window[:-1], window[1:]


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--truth", default="")
    parser.add_argument("--incident", choices=["nan", "spike", "stall", "crash"])
    parser.add_argument("--incident-step", type=int, default=0, help="default: two thirds of the steps")
    return parser.parse_args()


def main() -> None:
    """Train, print a line now and then, and write the independent record."""
    args = arguments()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    at = args.incident_step or max(1, args.steps * 2 // 3)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if world > 1:
        dist.init_process_group("gloo")
    model: nn.Module = GPT(args.width, args.depth, args.heads, args.length)
    if world > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1)
    warmup = max(1, args.steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda s: min((s + 1) / warmup, 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1.0, s / args.steps)))),
    )
    stall_after = (at - 1) * args.batch if args.incident == "stall" else 0
    data = iter(DataLoader(Text(args.length, 1 + rank, stall_after, 4.0 / args.batch), batch_size=args.batch))
    truth = open(f"{args.truth}.rank{rank}", "w", buffering=1) if args.truth else None  # noqa: SIM115
    began = time.time()
    for step in range(1, args.steps + 1):
        inputs, targets = next(data)
        if args.incident == "spike" and at <= step < at + 12:
            targets = torch.randint_like(targets, VOCABULARY)
        logits = model(inputs)
        loss = functional.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))
        if args.incident == "nan" and step == at:
            loss = loss * float("nan")
        if args.incident == "crash" and step == at and rank == world - 1:
            raise RuntimeError(f"demonstration of a crash at step {step} on rank {rank}")
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        lr = optimizer.param_groups[0]["lr"]
        optimizer.step()
        schedule.step()
        if truth:
            record = {"step": step, "loss": loss.item(), "lr": lr, "grad_norm": norm.item(), "time": time.time()}
            truth.write(json.dumps(record) + "\n")
        if rank == 0 and (step % 20 == 0 or step in (1, args.steps)):
            print(
                f"step {step:5d}  loss {loss.item():.4f}  lr {lr:.2e}  {step / (time.time() - began):.1f} steps/s",
                flush=True,
            )
    if truth:
        truth.close()
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
