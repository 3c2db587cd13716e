"""Gradient descent itself, and its average.

SGD (with momentum, dampening and Nesterov's look ahead) and ASGD, by PyTorch's formulas.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..dispatch.fused_update import Update
from ..errors import ArgumentError
from .elementwise import ElementwiseOptimizer, kind_of, update_of
from .flat_buffers import Names, Rule
from .optimizer import ParamsT, options_among, scalar

__all__ = ["ASGD", "SGD"]

_NOTHING, _WITH_VELOCITY = Names({}, {}), Names({}, {"momentum_buffer": 0.0})


def _descend(m: Any, numbers: Any, choices: Any, x: Any, g: Any, *velocity: Any) -> Any:
    lr, momentum, undamped = numbers[:3]
    first, nesterov = choices
    if not velocity:
        return (x - g * lr,)
    new = g if first else velocity[0] * momentum + g * undamped
    return x - ((g + new * momentum) * lr if nesterov else new * lr), new


class SGD(ElementwiseOptimizer):
    """Stochastic gradient descent, with momentum if asked for.

    >>> w = ex.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = ex.optim.SGD([w], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     w.sum().backward()
    ...     optimizer.step()
    >>> w
    tensor([0.7100, 1.7100], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ArgumentError(
                f"SGD: nesterov=True looks ahead along the momentum, so it needs momentum > 0 and dampening = 0, "
                f"got momentum={momentum}, dampening={dampening}"
            )
        super().__init__(params, options_among(locals()))

    def _names(self, group: dict[str, Any]) -> Names:
        return _WITH_VELOCITY if group["momentum"] else _NOTHING

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, momentum = scalar(group, "lr"), group["momentum"]
        nesterov = bool(group["nesterov"])
        kind, more = kind_of(_descend, group, lr, False, nesterov)
        update = Update(kind, (lr, momentum, 1.0 - group["dampening"], *more))

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Update]:
            if first and momentum != 0:
                return scalars, Update(kind._replace(choices=(True, nesterov)), update.numbers)
            return scalars, update

        return rule


def _averaged(m: Any, numbers: Any, choices: Any, x: Any, g: Any, average: Any) -> Any:
    eta, shrink, weight = numbers[:3]
    x = x * shrink - g * eta
    return x, x if choices[0] else average + (x - average) * weight


class ASGD(ElementwiseOptimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky, 1992); the average is `state[p]["ax"]`.

    >>> w = ex.tensor([1.0], requires_grad=True)
    >>> optimizer = ex.optim.ASGD([w], lr=0.1, lambd=0)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w, optimizer.state[w]["ax"]
    (tensor([0.9000], requires_grad=True), tensor([0.9000]))
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options_among(locals()))

    def _names(self, group: dict[str, Any]) -> Names:
        return Names({"step": 0.0, "eta": scalar(group, "lr"), "mu": 1.0}, {"ax": 0.0})

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, lambd, alpha, t0 = scalar(group, "lr"), group["lambd"], group["alpha"], group["t0"]

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Update]:
            step, eta, weight = scalars[0] + 1.0, scalars[1], scalars[2]
            new = (step, lr / (1.0 + lambd * lr * step) ** alpha, 1.0 / max(1.0, step - t0))
            return new, update_of(_averaged, (eta, 1.0 - lambd * eta, weight), group, lr, weight == 1.0)

        return rule
