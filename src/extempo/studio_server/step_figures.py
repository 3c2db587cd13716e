"""Figures of one step: gradients by layer, memory with its parts, time by phase."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..backends.selection import native
from ..core.tensor import Tensor
from ..inspect.owners import own_parameters
from ..nn import Module
from ..profiling import sites
from ..profiling.api import profile

_PHASES = {
    sites.PYTHON: "Python",
    sites.DISPATCH: "recording",
    sites.PLANNING_PHASE: "planning",
    sites.NATIVE: "kernels",
    sites.BACKWARD_PHASE: "backward",
    sites.OPTIMIZER_PHASE: "optimizer",
    sites.DATA_PHASE: "data",
}


def gradient_norms(model: Module) -> dict[str, float]:
    """The norm of the gradient of each layer that has parameters of its own and gradients, by its path."""
    found: dict[str, float] = {}
    for path, module in model.named_modules():
        gradients = [p.grad for p in own_parameters(module) if p.grad is not None]
        if gradients:
            found[path] = float(np.sqrt(sum(_squares(g) for g in gradients)))
    return found


def _squares(gradient: Tensor) -> float:
    values = np.asarray(gradient.detach()._values()).reshape(-1)
    wide = values if values.dtype == np.float64 else values.astype(np.float32)
    with np.errstate(all="ignore"):
        return float(np.dot(wide, wide))


def memory_parts(model: Module, optimizer: Any) -> dict[str, int]:
    """Bytes of tensors by what they are for; `other` is what the allocator knows beside these. NumPy has no such."""
    parameters = list(model.parameters())
    parts = {
        "parameters": _bytes(parameters),
        "gradients": _bytes(p.grad for p in parameters if p.grad is not None),
        "optimizer": _bytes(value for state in optimizer.state.values() for value in _tensors(state)),
        "buffers": _bytes(model.buffers()),
    }
    backend = native()
    known = sum(parts.values())
    in_use = backend.memory.bytes_in_use if backend is not None else known
    parts["other"] = max(in_use - known, 0)
    parts["total"] = known + parts["other"]
    parts["activations"] = max(peak_bytes() - parts["total"], 0)
    parts["peak"] = parts["total"] + parts["activations"]
    return parts


def peak_bytes() -> int:
    """The most that tensors took at a time since `forget_peak`; 0 where nobody counts."""
    backend = native()
    return int(backend.memory.stats()["peak_bytes_in_use"]) if backend is not None else 0


def forget_peak() -> None:
    """Count the peak anew."""
    backend = native()
    if backend is not None:
        backend.memory.reset_peak()


def _tensors(state: Any) -> list[Tensor]:
    values = state.values() if isinstance(state, dict) else ()
    return [value for value in values if isinstance(value, Tensor)]


def _bytes(tensors: Iterable[Any]) -> int:
    return sum({id(t): t.numel() * t.element_size() for t in tensors}.values())


def phase_seconds(profiled: profile) -> dict[str, float]:
    """Seconds of each phase that a profile knows."""
    found = dict.fromkeys(_PHASES.values(), 0.0)
    for row in profiled.by("phase"):
        name = _PHASES.get(row.name)
        if name is not None:
            found[name] += float(row.seconds)
    if not found["data"]:
        del found["data"]
    return found


def quietly(compute: Callable[[], Any]) -> Any:
    """What it gives; None if it fails: a figure that cannot be had must not end a training."""
    try:
        return compute()
    except Exception:
        return None
