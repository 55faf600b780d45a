# SPDX-License-Identifier: Apache-2.0
"""Top-level backward calls and the loss handed to them, without the scale of a gradient scaler.

In: calls of `torch.autograd.backward` (`Tensor.backward` goes through it) and of `GradScaler`. Out: marks for the step
tracker. Imports torch.

The engine re-enters backward for reentrant checkpointing; those calls are told apart by the graph task that is running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.amp.grad_scaler import GradScaler

from glideslope.capture import device
from glideslope.capture.patch import Around
from glideslope.capture.step import Scalar

if TYPE_CHECKING:
    from glideslope.capture.hooks import Hooks


class Backward:
    """Callbacks around backward and the gradient scaler."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._running = False
        self._scaler: GradScaler | None = None
        self._scaled: Any = None
        self._unscaled: Scalar | None = None

    def started(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Scalar | None] | None:
        """A backward begins; the token holds the loss. None for nested calls."""
        if self._running or torch._C._current_graph_task_id() != -1 or not self._hooks.in_training():
            return None
        roots = args[0] if args else kwargs.get("tensors")
        value = self._loss(roots)
        self._hooks.tracker.backward_started(self._hooks.now(), value)
        self._running = True
        return (value,)

    def ended(self, _token: object, _result: object) -> None:
        """The backward returned."""
        self._running = False
        self._hooks.tracker.backward_ended(self._hooks.now())

    def failed(self, token: tuple[Scalar | None]) -> None:
        """The backward raised."""
        self._running = False
        self._hooks.tracker.backward_failed(self._hooks.now(), token[0])

    def settle(self) -> None:
        """An optimizer step begins outside of any backward: none can be running, even if its end was missed."""
        self._running = self._running and torch._C._current_graph_task_id() != -1

    def _loss(self, roots: Any) -> Scalar | None:
        if roots is self._scaled and roots is not None:
            value, self._scaled, self._unscaled = self._unscaled, None, None
            return value
        if isinstance(roots, torch.Tensor):
            value = device.read(roots)
        elif isinstance(roots, (tuple, list)) and roots:
            parts: list[Any] = [device.read(root) for root in roots]
            value = None if any(part is None for part in parts) else sum(parts[1:], parts[0])
        else:
            value = None
        # Scaled, then worked on (divided by the number of micro-steps): take the scale out again.
        scale = self.scale() if value is not None else None
        return value if scale is None else value / scale

    def scale(self) -> Scalar | None:
        """The loss scale in force in this step; None when no scaler took part in it."""
        scaler = self._scaler
        return None if scaler is None else device.read(scaler._get_scale_async())

    def gradients_are_scaled(self) -> bool:
        """Whether gradients still carry the loss scale, as far as the scaler knows."""
        scaler = self._scaler
        if scaler is None:
            return False
        states = getattr(scaler, "_per_optimizer_states", {})
        return all(getattr(state.get("stage"), "name", "READY") == "READY" for state in states.values())

    def scaling(self, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """`GradScaler.scale` begins."""
        if len(args) < 2 or not getattr(args[0], "_enabled", False):
            return None
        return args

    def scaled(self, args: tuple[Any, ...], result: Any) -> None:
        """`GradScaler.scale` returned: remember which tensor stands for which loss, without its graph."""
        self._scaler = args[0]
        if isinstance(result, torch.Tensor) and result.numel() == 1:
            self._scaled, self._unscaled = result, device.read(args[1])

    def updating(self, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """`GradScaler.update` begins."""
        return args if getattr(args[0], "_enabled", False) else None

    def updated(self, args: tuple[Any, ...], _result: object) -> None:
        """`GradScaler.update` returned: the iteration is over."""
        self._scaled = self._unscaled = None
        if self._scaler is args[0]:
            self._scaler = None
            self._hooks.tracker.scaler_updated(self._hooks.now())


def attach(hooks: Hooks) -> None:
    """Patch backward and the gradient scaler."""
    backward = hooks.backward = Backward(hooks)
    hooks.patch("backward", [(torch.autograd, "backward")], Around(backward.started, backward.ended, backward.failed))
    hooks.patch("scaler.scale", [(GradScaler, "scale")], Around(backward.scaling, backward.scaled))
    hooks.patch("scaler.update", [(GradScaler, "update")], Around(backward.updating, backward.updated))
