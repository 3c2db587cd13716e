"""Optimizers whose update treats every element alike: one fused pass over flat memory does a whole group.

A subclass says what state it keeps (`_names`) and how one step goes (`_rule`), in NumPy arithmetic on flat arrays;
where those arrays lie, which parameters take part and when, is `flat`'s business. Kernels compute in place, with two
arrays of scratch, and may overwrite the gradient they are given: it is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._tensor import Tensor
from ..errors import NumericalError, ShapeError, UnsupportedError
from ..modes import enable_grad
from ..storage import Array
from .flat import Kernel, Layout, Names, Rule, Workspaces
from .optimizer import Optimizer, number


class ElementwiseOptimizer(Optimizer):
    """An optimizer that updates each group in one pass.

    `foreach=` and `fused=` choose implementations in PyTorch and `capturable=` is about CUDA graphs; here the fused
    pass is the default and they change nothing.
    """

    def _check_defaults(self, defaults: Mapping[str, Any]) -> None:
        super()._check_defaults(defaults)
        name = type(self).__name__
        for key in (
            "eps",
            "weight_decay",
            "momentum",
            "alpha",
            "lr_decay",
            "momentum_decay",
            "initial_accumulator_value",
        ):
            if not number(defaults.get(key, 0.0)) >= 0.0:
                raise NumericalError(f"{name}: {key} must not be negative, got {defaults[key]}")
        for i, beta in enumerate(defaults.get("betas", ())):
            if isinstance(beta, Tensor) and beta.numel() != 1:
                raise ShapeError(f"{name}: a tensor in betas must have one element, got shape {tuple(beta.shape)}")
            if not 0.0 <= number(beta) < 1.0:
                raise NumericalError(f"{name}: betas[{i}] must be at least 0 and below 1, got {beta}")
        if defaults.get("differentiable"):
            raise UnsupportedError(
                f"{name}: differentiable=True is not supported, the update is not recorded; to differentiate through "
                "updates write them as plain tensor expressions: w - lr * ex.autograd.grad(..., create_graph=True)[0]"
            )

    def _forget_layout(self) -> None:
        self._layouts: list[Layout] = []
        self._workspaces = Workspaces()

    def _names(self, group: dict[str, Any]) -> Names:
        """The state kept for each parameter of the group, with its initial values."""
        raise NotImplementedError

    def _rule(self, group: dict[str, Any]) -> Rule:
        """How the parameters of the group are updated in this step."""
        raise NotImplementedError

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; `closure` computes the loss again and is called first.

        >>> w = ex.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = ex.optim.SGD([w], lr=0.5)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (w * w).sum()
        ...     loss.backward()
        ...     return loss.item()
        >>> optimizer.step(closure), w
        (5.0, tensor([0., 0.], requires_grad=True))
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        del self._layouts[len(self.param_groups) :]
        self._layouts += [Layout() for _ in self.param_groups[len(self._layouts) :]]
        for group, layout in zip(self.param_groups, self._layouts, strict=True):
            layout.step(group["params"], self._names(group), self._rule(group), self.state, self._workspaces)
        return loss

    def _initial_state(self, key: str, group: dict[str, Any]) -> float:
        return self._names(group).initial.get(key, 0.0)

    def _check_state(self, parameters: Mapping[Any, Tensor], state: Mapping[Any, Any]) -> None:
        wrong = []
        for key, p in parameters.items():
            for name, value in state.get(p, {}).items():
                if isinstance(value, Tensor) and value.ndim and value.shape != p.shape:
                    wrong.append(f"state[{key!r}][{name!r}] is {tuple(value.shape)}, the parameter {tuple(p.shape)}")
        if wrong:
            raise ShapeError(
                f"load_state_dict: shapes differ: {'; '.join(wrong)}; were the parameters given in the same order?"
            )


# ---- pieces of kernels


def lerp(average: Array, g: Array, weight: float, scratch: Array) -> None:
    """average += weight * (g - average), from the nearer end, so that weight 1 gives exactly g."""
    np.subtract(g, average, out=scratch)
    if weight < 0.5:
        scratch *= weight
        average += scratch
    else:
        scratch *= 1.0 - weight
        np.subtract(g, scratch, out=average)


def average_square(average: Array, g: Array, decay: float, scratch: Array) -> None:
    """average = decay * average + (1 - decay) * g * g."""
    average *= decay
    np.multiply(g, g, out=scratch)
    scratch *= 1.0 - decay
    average += scratch


def prepared(kernel: Kernel, group: dict[str, Any], lr: float) -> Kernel:
    """The kernel, after what `maximize` and `weight_decay` ask for has been done to the gradient or the values."""
    decay = number(group.get("weight_decay", 0.0))
    maximize = group["maximize"]
    decoupled = group.get("decoupled_weight_decay", False)
    if not maximize and decay == 0:
        return kernel

    def with_decay(values: Array, g: Array, scratch: Array, more: Array, *moments: Array) -> None:
        if maximize:
            np.negative(g, out=g)
        if decay != 0 and decoupled:
            values *= 1.0 - lr * decay
        elif decay != 0:
            np.multiply(values, decay, out=scratch)
            g += scratch
        kernel(values, g, scratch, more, *moments)

    return with_decay
