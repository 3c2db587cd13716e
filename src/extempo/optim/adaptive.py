"""Step sizes by element: Adagrad, Adadelta, RMSprop, and Rprop, which looks at signs only. By PyTorch's formulas."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..dispatch.fused_update import Update
from .elementwise import ElementwiseOptimizer, average_square, lerp, lerp_weight, update_of
from .flat_buffers import Names, Rule
from .optimizer import ParamsT, options_among, scalar

__all__ = ["Adadelta", "Adagrad", "RMSprop", "Rprop"]


def _adagrad(m: Any, numbers: Any, choices: Any, x: Any, g: Any, total: Any) -> Any:
    eps, size = numbers[:2]
    total = total + g * g
    return x - g / (m.sqrt(total) + eps) * size, total


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
        super().__init__(params, options_among(locals()))
        for p in self._parameters():
            # As in PyTorch, there before the first step.
            self.state[p] = {"step": ops.tensor(0.0), "sum": ops.full_like(p.detach(), initial_accumulator_value)}

    def _names(self, group: dict[str, Any]) -> Names:
        return Names({"step": 0.0}, {"sum": self.defaults["initial_accumulator_value"]})

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, eps = scalar(group, "lr"), group["eps"]

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Update]:
            size = lr / (1.0 + scalars[0] * group["lr_decay"])
            return (scalars[0] + 1.0,), update_of(_adagrad, (eps, size), group, lr)

        return rule


def _adadelta(m: Any, numbers: Any, choices: Any, x: Any, g: Any, square: Any, past: Any) -> Any:
    rho, rest, eps, lr = numbers[:4]
    square = average_square(square, g, rho, rest)
    delta = m.sqrt(past + eps) / m.sqrt(square + eps) * g
    return x - delta * lr, square, average_square(past, delta, rho, rest)


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
        super().__init__(params, options_among(locals()))

    _state_names = Names({"step": 0.0}, {"square_avg": 0.0, "acc_delta": 0.0})

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, rho, eps = scalar(group, "lr"), group["rho"], group["eps"]

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Update]:
            return (scalars[0] + 1.0,), update_of(_adadelta, (rho, 1.0 - rho, eps, lr), group, lr)

        return rule


def _rmsprop(m: Any, numbers: Any, choices: Any, x: Any, g: Any, square: Any, *others: Any) -> Any:
    alpha, rest, eps, lr, momentum, weight = numbers[:6]
    has_momentum, centered, near = choices
    square = average_square(square, g, alpha, rest)
    after: tuple[Any, ...] = ()
    if centered:
        mean = lerp(others[-1], g, weight, near)
        step = g / (m.sqrt(square - mean * mean) + eps)
        after = (mean,)
    else:
        step = g / (m.sqrt(square) + eps)
    if has_momentum:
        step = others[0] * momentum + step
        after = (step, *after)
    return x - step * lr, square, *after


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
        super().__init__(params, options_among(locals()))

    def _names(self, group: dict[str, Any]) -> Names:
        moments = {"square_avg": 0.0}
        if group["momentum"] > 0:
            moments["momentum_buffer"] = 0.0
        if group["centered"]:
            moments["grad_avg"] = 0.0
        return Names({"step": 0.0}, moments)

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, alpha, eps, momentum = scalar(group, "lr"), group["alpha"], group["eps"], group["momentum"]
        weight, near = lerp_weight(1.0 - alpha)
        numbers = (alpha, 1.0 - alpha, eps, lr, momentum, weight)

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Update]:
            return (scalars[0] + 1.0,), update_of(
                _rmsprop, numbers, group, lr, momentum > 0, bool(group["centered"]), near
            )

        return rule


def _rprop(m: Any, numbers: Any, choices: Any, x: Any, g: Any, before: Any, size: Any) -> Any:
    shrink, grow, smallest, largest = numbers[:4]
    change = g * before
    size = m.where(change > 0.0, size * grow, m.where(change < 0.0, size * shrink, size))
    size = m.minimum(m.maximum(size, smallest), largest)
    # Where the sign changed the last step went too far: wait one step, and forget that gradient.
    g = m.where(change < 0.0, 0.0, g)
    return x - m.sign(g) * size, g, size


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
        super().__init__(params, options_among(locals()))

    def _names(self, group: dict[str, Any]) -> Names:
        return Names({"step": 0.0}, {"prev": 0.0, "step_size": scalar(group, "lr")})

    def _rule(self, group: dict[str, Any]) -> Rule:
        numbers = (*group["etas"], *group["step_sizes"])

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Update]:
            return (scalars[0] + 1.0,), update_of(_rprop, numbers, group, scalar(group, "lr"))

        return rule
