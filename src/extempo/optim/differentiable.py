"""The step of `differentiable=True`: an optimizer's formula as tensor operations, so that gradients flow through it.

The formula is the one that the fused pass runs. Parameters are no leaves then (a leaf cannot be written while gradients
are recorded), and options that are tensors requiring grad, such as a learning rate, get gradients as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from .. import ops
from ..core.context import enable_grad
from ..core.tensor import Tensor
from .flat_buffers import Names, Rule

__all__ = ["step_recorded"]


def _bound(larger: bool) -> Any:
    """Maximum or minimum of a tensor and a tensor or number."""
    function = ops.maximum if larger else ops.minimum

    def bounded(a: Tensor, b: Any) -> Tensor:
        if isinstance(b, Tensor):
            return function(a, b)
        return a.clamp(min=b) if larger else a.clamp(max=b)

    return bounded


# The functions that formulas use (see `dispatch.fused_update`), of tensors.
_MATH = SimpleNamespace(
    sqrt=ops.sqrt, absolute=ops.abs, sign=ops.sign, where=ops.where, maximum=_bound(True), minimum=_bound(False)
)


def step_recorded(group: Mapping[str, Any], names: Names, rule: Rule, states: Any) -> None:
    """Update every parameter of a group that has a gradient, as operations of the graph."""
    with enable_grad():
        for p in group["params"]:
            if p.grad is not None:
                _update(p, p.grad, names, rule, states[p])


def _update(p: Tensor, gradient: Tensor, names: Names, rule: Rule, state: dict[str, Any]) -> None:
    is_first = any(state.get(name) is None for name in names.moments)
    scalars = tuple(_number(state.get(name), initial) for name, initial in names.scalars.items())
    moments = [
        found if (found := state.get(name)) is not None else ops.zeros_like(p.detach()) + initial
        for name, initial in names.moments.items()
    ]
    new_scalars, update = rule(is_first, scalars)
    values, *new_moments = update.kind(_MATH, update.numbers, p.clone(), gradient, *moments)
    p.copy_(values)
    for name, value in zip(names.scalars, new_scalars, strict=True):
        state[name] = value if isinstance(value, Tensor) else ops.tensor(float(value))
    for name, moment in zip(names.moments, new_moments, strict=True):
        state[name] = moment


def _number(value: Any, initial: float) -> Any:
    """A number of the state, as it was left by the last step; a tensor if it depends on an option."""
    if value is None:
        return initial
    return value if isinstance(value, Tensor) and value.requires_grad else float(value)
