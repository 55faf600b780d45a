# SPDX-License-Identifier: Apache-2.0
"""Which module is the model, and what its parameters are called.

In: torch's registration hooks, which run when modules are built and never in a forward pass. Out: names by parameter.
Holds weak references only and stores nothing on modules. Imports torch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.optim.optimizer import Optimizer

_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})


def plain_name(path: str) -> str:
    """The path of a parameter without what torch.compile, DDP, FSDP and checkpointing put into it."""
    parts = [part for part in path.split(".") if part not in _WRAPPERS]
    while len(parts) > 1 and parts[0] == "module":
        del parts[0]
    return ".".join(parts)


class ModuleTree:
    """Knows the modules that were built since it was registered, and who is whose child."""

    def __init__(self) -> None:
        self._modules: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._parents: dict[int, list[weakref.ref[torch.nn.Module]]] = {}

    def register(self, protect: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> list[Any]:
        """Register with torch; `protect(name, callback)` makes a callback harmless. Returns handles to remove."""
        return [
            register_module_module_registration_hook(protect("module.child", self._child)),
            register_module_parameter_registration_hook(protect("module.parameter", self._parameter)),
        ]

    def _know(self, module: torch.nn.Module) -> weakref.ref[torch.nn.Module]:
        key = id(module)
        known = self._modules.get(key)
        if known is None or known() is not module:
            modules, parents = self._modules, self._parents

            def gone(_reference: object) -> None:
                modules.pop(key, None)
                parents.pop(key, None)

            known = modules[key] = weakref.ref(module, gone)
            parents.pop(key, None)
        return known

    def _child(self, parent: torch.nn.Module, _name: str, child: torch.nn.Module | None) -> None:
        if torch.compiler.is_compiling() or child is None:
            return
        known = self._know(parent)
        self._know(child)
        parents = self._parents.setdefault(id(child), [])
        if known not in parents:
            parents.append(known)

    def _parameter(self, module: torch.nn.Module, _name: str, _parameter: Any) -> None:
        if not torch.compiler.is_compiling():
            self._know(module)

    def roots(self) -> list[torch.nn.Module]:
        """Modules that live and have no living parent."""
        found = []
        for key, reference in list(self._modules.items()):
            module = reference()
            if module is not None and not any(parent() is not None for parent in self._parents.get(key, ())):
                found.append(module)
        return found

    def owner(self, parameters: Iterable[torch.Tensor]) -> torch.nn.Module | None:
        """The root that owns most of `parameters`; of equals, the one with least besides; None if none."""
        wanted = {id(parameter) for parameter in parameters}
        best, best_score = None, (0, 0)
        for root in self.roots():
            owned = {id(parameter) for parameter in root.parameters()}
            score = (len(owned & wanted), -len(owned))
            if score[0] and score > best_score:
                best, best_score = root, score
        return best


def parameter_names(tree: ModuleTree, optimizer: Optimizer) -> tuple[str, ...]:
    """Names of an optimizer's parameters, in the order of its groups.

    From the model that owns them; else from the optimizer, when it was built from named parameters; else `param.<n>`.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    told: list[str | None] = []
    for group in optimizer.param_groups:
        told += group.get("param_names") or [None] * len(group["params"])
    model = tree.owner(parameters)
    named = {} if model is None else {id(p): name for name, p in model.named_parameters()}
    return tuple(plain_name(named.get(id(p)) or told[i] or f"param.{i}") for i, p in enumerate(parameters))
