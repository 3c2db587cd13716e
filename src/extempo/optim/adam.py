"""The Adam family: a running mean of gradients, divided by a running size of them.

Adam, AdamW, Adamax, NAdam, RAdam. Each follows PyTorch's formula; factors that are equal for all elements are
multiplied beforehand, which changes results by rounding only.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..dispatch.fused_update import Update
from .elementwise import ElementwiseOptimizer, average_square, kind_of, lerp, lerp_weight, update_of
from .flat_buffers import Names, Rule
from .optimizer import ParamsT, options_among, scalar

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]

_MEAN_AND_SQUARE = Names({"step": 0.0}, {"exp_avg": 0.0, "exp_avg_sq": 0.0})
_WITH_LARGEST = Names({"step": 0.0}, _MEAN_AND_SQUARE.moments | {"max_exp_avg_sq": 0.0})

Betas = tuple[float | Tensor, float | Tensor]


def _adam(m: Any, numbers: Any, choices: Any, x: Any, g: Any, mean: Any, square: Any, *largest: Any) -> Any:
    weight, decay, rest, offset, size = numbers[:5]
    mean = lerp(mean, g, weight, choices[0])
    square = average_square(square, g, decay, rest)
    if not largest:
        return x - mean / (m.sqrt(square) + offset) * size, mean, square
    most = m.maximum(largest[0], square)
    return x - mean / (m.sqrt(most) + offset) * size, mean, square, most


class Adam(ElementwiseOptimizer):
    """Adam (Kingma and Ba, 2015), with `amsgrad` (Reddi et al., 2018) and decoupled or plain weight decay.

    >>> w = ex.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = ex.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.9000, -0.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, options_among(locals()))

    def _names(self, group: dict[str, Any]) -> Names:
        return _WITH_LARGEST if group["amsgrad"] else _MEAN_AND_SQUARE

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, eps = scalar(group, "lr"), group["eps"]
        beta1, beta2 = scalar(group, "betas")
        weight, near = lerp_weight(1.0 - beta1)
        rest = 1.0 - beta2
        kind, more = kind_of(_adam, group, lr, near)

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Update]:
            step = scalars[0] + 1.0
            correction = (1.0 - beta2**step) ** 0.5
            # lr * m / (sqrt(v) / correction + eps), with the correction taken out of the elementwise part.
            size, offset = lr / (1.0 - beta1**step) * correction, eps * correction
            return (step,), Update(kind, (weight, beta2, rest, offset, size, *more))

        return rule


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): `w -= lr * weight_decay * w` before the update.

    >>> w = ex.tensor([1.0], requires_grad=True)
    >>> optimizer = ex.optim.AdamW([w], lr=0.1, weight_decay=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8500], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, **options_among(locals()), decoupled_weight_decay=True)

    def _restore(self, fields: dict[str, Any]) -> None:
        super()._restore(fields)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True  # whatever the checkpoint of an Adam says


def _adamax(m: Any, numbers: Any, choices: Any, x: Any, g: Any, mean: Any, largest: Any) -> Any:
    weight, decay, eps, size = numbers[:4]
    mean = lerp(mean, g, weight, choices[0])
    largest = m.maximum(largest * decay, m.absolute(g) + eps)
    return x - mean / largest * size, mean, largest


class Adamax(ElementwiseOptimizer):
    """Adam with the largest gradient in place of their mean square (Kingma and Ba, 2015).

    >>> w = ex.tensor([1.0], requires_grad=True)
    >>> optimizer = ex.optim.Adamax([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options_among(locals()))

    _state_names = Names({"step": 0.0}, {"exp_avg": 0.0, "exp_inf": 0.0})

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, eps = scalar(group, "lr"), group["eps"]
        beta1, beta2 = scalar(group, "betas")
        weight, near = lerp_weight(1.0 - beta1)

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Update]:
            step = scalars[0] + 1.0
            return (step,), update_of(_adamax, (weight, beta2, eps, lr / (1.0 - beta1**step)), group, lr, near)

        return rule


def _nadam(m: Any, numbers: Any, choices: Any, x: Any, g: Any, mean: Any, square: Any) -> Any:
    weight, decay, rest, correction, eps, of_gradient, of_mean = numbers[:7]
    mean = lerp(mean, g, weight, choices[0])
    square = average_square(square, g, decay, rest)
    return x - (g * of_gradient + mean * of_mean) / (m.sqrt(square / correction) + eps), mean, square


class NAdam(ElementwiseOptimizer):
    """Adam with Nesterov momentum (Dozat, 2016).

    >>> w = ex.tensor([1.0], requires_grad=True)
    >>> optimizer = ex.optim.NAdam([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w.item() < 1.0
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_among(locals()))

    _state_names = Names({"step": 0.0, "mu_product": 1.0}, {"exp_avg": 0.0, "exp_avg_sq": 0.0})

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, eps, momentum_decay = scalar(group, "lr"), group["eps"], group["momentum_decay"]
        beta1, beta2 = scalar(group, "betas")
        weight, near = lerp_weight(1.0 - beta1)

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Update]:
            step = scalars[0] + 1.0
            momentum = beta1 * (1.0 - 0.5 * 0.96 ** (step * momentum_decay))
            next_momentum = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1.0) * momentum_decay))
            product = scalars[1] * momentum
            of_gradient = lr * (1.0 - momentum) / (1.0 - product)
            of_mean = lr * next_momentum / (1.0 - product * next_momentum)
            numbers = (weight, beta2, 1.0 - beta2, 1.0 - beta2**step, eps, of_gradient, of_mean)
            return (step, product), update_of(_nadam, numbers, group, lr, near)

        return rule


def _radam(m: Any, numbers: Any, choices: Any, x: Any, g: Any, mean: Any, square: Any) -> Any:
    weight, decay, rest, eps, size = numbers[:5]
    near, rectified = choices
    mean = lerp(mean, g, weight, near)
    square = average_square(square, g, decay, rest)
    return x - (mean / (m.sqrt(square) + eps) if rectified else mean) * size, mean, square


class RAdam(ElementwiseOptimizer):
    """Adam whose step size is rectified while the mean square is still uncertain (Liu et al., 2020).

    >>> w = ex.tensor([1.0], requires_grad=True)
    >>> optimizer = ex.optim.RAdam([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_among(locals()))

    _state_names = _MEAN_AND_SQUARE

    def _rule(self, group: dict[str, Any]) -> Rule:
        lr, eps = scalar(group, "lr"), group["eps"]
        beta1, beta2 = scalar(group, "betas")
        weight, near = lerp_weight(1.0 - beta1)

        def rule(first: bool, scalars: tuple[float, ...]) -> tuple[tuple[float, ...], Update]:
            step = scalars[0] + 1.0
            correction = 1.0 - beta2**step
            longest = 2.0 / (1.0 - beta2) - 1.0
            length = longest - 2.0 * step * beta2**step / correction
            size = lr / (1.0 - beta1**step)
            rectified = length > 5.0
            if rectified:
                ratio = (length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length)
                size *= ratio**0.5 * correction**0.5
            return (step,), update_of(_radam, (weight, beta2, 1.0 - beta2, eps, size), group, lr, near, rectified)

        return rule
