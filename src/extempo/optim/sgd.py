"""Gradient descent itself, and its average.

SGD (with momentum, dampening and Nesterov's look ahead) and ASGD, by PyTorch's formulas.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._tensor import Tensor
from ..errors import NumericalError
from ..storage import Array
from .elementwise import ElementwiseOptimizer, prepared
from .flat import Kernel, Names, Rule
from .optimizer import ParamsT, number

__all__ = ["ASGD", "SGD"]


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
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        if nesterov and (momentum <= 0 or dampening != 0):
            raise NumericalError(
                f"SGD: nesterov=True looks ahead along the momentum, so it needs momentum > 0 and dampening = 0, "
                f"got momentum={momentum}, dampening={dampening}"
            )
        super().__init__(params, defaults)

    def _names(self, group: dict[str, Any]) -> Names:
        return Names({}, {"momentum_buffer": 0.0} if group["momentum"] else {})

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, momentum, dampening = number(group["lr"]), group["momentum"], group["dampening"]
        nesterov = group["nesterov"]

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Kernel]:
            def kernel(values: Array, g: Array, scratch: Array, _: Array, *moments: Array) -> None:
                if moments:
                    velocity = moments[0]
                    if first:
                        velocity[...] = g
                    else:
                        velocity *= momentum
                        np.multiply(g, 1.0 - dampening, out=scratch)
                        velocity += scratch
                    np.multiply(velocity, momentum if nesterov else lr, out=scratch)
                    if nesterov:
                        g += scratch
                        g *= lr
                        values -= g
                    else:
                        values -= scratch
                    return
                g *= lr
                values -= g

            return scalars, prepared(kernel, group, lr)

        return rule


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
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _names(self, group: dict[str, Any]) -> Names:
        return Names({"step": 0.0, "eta": number(group["lr"]), "mu": 1.0}, {"ax": 0.0})

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, lambd, alpha, t0 = number(group["lr"]), group["lambd"], group["alpha"], group["t0"]

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Kernel]:
            step, eta, weight = scalars[0] + 1.0, scalars[1], scalars[2]

            def kernel(values: Array, g: Array, scratch: Array, _: Array, average: Array) -> None:
                values *= 1.0 - lambd * eta
                g *= eta
                values -= g
                if weight == 1.0:
                    average[...] = values
                    return
                np.subtract(values, average, out=scratch)
                scratch *= weight
                average += scratch

            new = (step, lr / (1.0 + lambd * lr * step) ** alpha, 1.0 / max(1.0, step - t0))
            return new, prepared(kernel, group, lr)

        return rule
