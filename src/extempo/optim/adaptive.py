"""Step sizes by element: Adagrad, Adadelta, RMSprop, and Rprop, which looks at signs only. By PyTorch's formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from .._tensor import Tensor
from ..errors import NumericalError
from ..storage import Array
from .elementwise import ElementwiseOptimizer, average_square, lerp, prepared
from .flat import Kernel, Names, Rule
from .optimizer import ParamsT, number

__all__ = ["Adadelta", "Adagrad", "RMSprop", "Rprop"]


class Adagrad(ElementwiseOptimizer):
    """Gradients divided by the root of the sum of all their squares so far (Duchi et al., 2011).

    >>> w = ex.tensor([1.0], requires_grad=True)
    >>> optimizer = ex.optim.Adagrad([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for p in self._parameters():
            # As in PyTorch, there before the first step.
            self.state[p] = {
                "step": ops.tensor(0.0),
                "sum": ops.full_like(p.detach(), initial_accumulator_value),
            }

    def _names(self, group: dict[str, Any]) -> Names:
        return Names({"step": 0.0}, {"sum": self.defaults["initial_accumulator_value"]})

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, eps = number(group["lr"]), group["eps"]

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Kernel]:
            size = lr / (1.0 + scalars[0] * group["lr_decay"])

            def kernel(values: Array, g: Array, scratch: Array, _: Array, total: Array) -> None:
                np.multiply(g, g, out=scratch)
                total += scratch
                np.sqrt(total, out=scratch)
                scratch += eps
                g /= scratch
                g *= size
                values -= g

            return (scalars[0] + 1.0,), prepared(kernel, group, lr)

        return rule


class Adadelta(ElementwiseOptimizer):
    """Steps in the units of the parameters, by the ratio of past steps to past gradients (Zeiler, 2012).

    >>> w = ex.tensor([1.0], requires_grad=True)
    >>> optimizer = ex.optim.Adadelta([w])
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w.item() < 1.0
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 <= rho <= 1.0:
            raise NumericalError(f"Adadelta: rho must lie between 0 and 1, got {rho}")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _names(self, group: dict[str, Any]) -> Names:
        return Names({"step": 0.0}, {"square_avg": 0.0, "acc_delta": 0.0})

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, rho, eps = number(group["lr"]), group["rho"], group["eps"]

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Kernel]:
            def kernel(values: Array, g: Array, scratch: Array, delta: Array, square: Array, past: Array) -> None:
                average_square(square, g, rho, scratch)
                np.add(square, eps, out=scratch)
                np.sqrt(scratch, out=scratch)
                np.add(past, eps, out=delta)
                np.sqrt(delta, out=delta)
                delta /= scratch
                delta *= g
                average_square(past, delta, rho, scratch)
                delta *= lr
                values -= delta

            return (scalars[0] + 1.0,), prepared(kernel, group, lr)

        return rule


class RMSprop(ElementwiseOptimizer):
    """Gradients divided by the root of their mean square (Hinton, 2012); `centered` by their standard deviation.

    >>> w = ex.tensor([1.0], requires_grad=True)
    >>> optimizer = ex.optim.RMSprop([w], lr=0.1, alpha=0)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _names(self, group: dict[str, Any]) -> Names:
        moments = {"square_avg": 0.0}
        if group["momentum"] > 0:
            moments["momentum_buffer"] = 0.0
        if group["centered"]:
            moments["grad_avg"] = 0.0
        return Names({"step": 0.0}, moments)

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, alpha, eps, momentum = number(group["lr"]), group["alpha"], group["eps"], group["momentum"]
        centered = group["centered"]

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Kernel]:
            def kernel(values: Array, g: Array, scratch: Array, more: Array, square: Array, *others: Array) -> None:
                average_square(square, g, alpha, scratch)
                if centered:
                    mean = others[-1]
                    lerp(mean, g, 1.0 - alpha, scratch)
                    np.multiply(mean, mean, out=more)
                    np.subtract(square, more, out=scratch)
                    np.sqrt(scratch, out=scratch)
                else:
                    np.sqrt(square, out=scratch)
                scratch += eps
                g /= scratch
                if momentum > 0:
                    velocity = others[0]
                    velocity *= momentum
                    velocity += g
                    g[...] = velocity
                g *= lr
                values -= g

            return (scalars[0] + 1.0,), prepared(kernel, group, lr)

        return rule


class Rprop(ElementwiseOptimizer):
    """Steps that grow while a gradient keeps its sign and shrink when it changes (Riedmiller and Braun, 1993).

    >>> w = ex.tensor([1.0], requires_grad=True)
    >>> optimizer = ex.optim.Rprop([w], lr=0.1)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     w.sum().backward()
    ...     optimizer.step()
    >>> w
    tensor([0.7800], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise NumericalError(f"Rprop: etas must be a factor between 0 and 1 and one above 1, got {etas}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _names(self, group: dict[str, Any]) -> Names:
        return Names({"step": 0.0}, {"prev": 0.0, "step_size": number(group["lr"])})

    def _rule(self, group: dict[str, Any]) -> Rule:
        shrink, grow = group["etas"]
        smallest, largest = group["step_sizes"]

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Kernel]:
            def kernel(values: Array, g: Array, scratch: Array, factor: Array, before: Array, size: Array) -> None:
                np.multiply(g, before, out=scratch)
                turned = scratch < 0
                factor.fill(1.0)
                np.copyto(factor, grow, where=scratch > 0)
                np.copyto(factor, shrink, where=turned)
                size *= factor
                np.clip(size, smallest, largest, out=size)
                # Where the sign changed the last step went too far: wait one step, and forget that gradient.
                np.copyto(g, 0.0, where=turned)
                before[...] = g
                np.sign(g, out=g)
                g *= size
                values -= g

            return (scalars[0] + 1.0,), prepared(kernel, group, number(group["lr"]))

        return rule
