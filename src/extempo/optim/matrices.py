"""Optimizers that look at a whole matrix instead of single elements: Adafactor and Muon, by PyTorch's formulas.

They go from parameter to parameter in tensor operations; `foreach=` is accepted and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from .. import ops
from ..core.context import enable_grad, no_grad
from ..core.tensor import Tensor
from ..core.types import finfo
from ..errors import ArgumentError, ShapeError
from .optimizer import Optimizer, ParamsT, number, options_among

__all__ = ["Adafactor", "Muon"]

_LEARNING_RATES = (None, "original", "match_rms_adamw")


class _ByParameter(Optimizer):
    """Updates one parameter after another."""

    def _update(self, p: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise NotImplementedError

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; `closure` computes the loss again and is called first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, p.grad, self.state[p], group)
        return loss

    def _check_not_negative(self, options: Mapping[str, Any], *names: str) -> None:
        for name in names:
            if not number(options[name]) >= 0.0:
                raise ArgumentError(f"{type(self).__name__}: {name} must not be negative, got {options[name]}")


class Adafactor(_ByParameter):
    """Adaptive steps whose mean squares are kept by row and column (Shazeer and Stern, 2018), to save memory.

    `lr` is the largest relative step, and the factor of the decoupled weight decay; `d` clips the update. `eps` are the
    least root of a mean square (by default that of the dtype) and the least size that a parameter is taken to have.

    >>> w = ex.ones(2, 3, requires_grad=True)
    >>> optimizer = ex.optim.Adafactor([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w[0].tolist() == ex.full((3,), 0.9).tolist()
    True
    >>> optimizer.state[w]["row_var"].shape, optimizer.state[w]["col_var"].shape
    (extempo.Size([2, 1]), extempo.Size([1, 3]))
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if not beta2_decay <= 0.0:
            raise ArgumentError(f"Adafactor: beta2_decay must not be positive, got {beta2_decay}")
        if any(part is not None and not part >= 0.0 for part in eps):
            raise ArgumentError(f"Adafactor: eps must be two numbers that are not negative, got {eps}")
        if not d >= 1.0:
            raise ArgumentError(f"Adafactor: d, where updates are clipped, must be at least 1, got {d}")
        super().__init__(params, options_among(locals()))

    def _check_defaults(self, defaults: Mapping[str, Any]) -> None:
        super()._check_defaults(defaults)
        self._check_not_negative(defaults, "weight_decay")

    def _update(self, p: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        g = -gradient if group["maximize"] else gradient
        if not state:
            state.update(self._first_state(g))
        state["step"] += 1.0
        step, lr = state["step"].item(), number(group["lr"])
        least = finfo(p.dtype).eps if group["eps"][0] is None else group["eps"][0]
        size = max(group["eps"][1], _root_mean_square(p)) * min(lr, step**-0.5)
        if group["weight_decay"] != 0:
            p.mul_(1.0 - lr * group["weight_decay"])
        mean_square = self._mean_square(g, state, step ** group["beta2_decay"], least)
        update = mean_square.clamp(min=least * least).rsqrt() * g
        p.sub_(update, alpha=size / max(1.0, _root_mean_square(update) / group["d"]))

    @staticmethod
    def _first_state(g: Tensor) -> dict[str, Tensor]:
        step = ops.tensor(0.0)
        if g.ndim < 2:
            return {"step": step, "variance": ops.zeros_like(g)}
        *batch, n_rows, n_columns = g.shape
        return {
            "step": step,
            "row_var": g.new_zeros((*batch, n_rows, 1)),
            "col_var": g.new_zeros((*batch, 1, n_columns)),
        }

    @staticmethod
    def _mean_square(g: Tensor, state: dict[str, Tensor], weight: float, least: float) -> Tensor:
        """The running mean of squared gradients: of each element, or the product of those of its row and column."""
        if g.ndim < 2:
            return state["variance"].lerp_(g * g, weight)
        rows, columns = state["row_var"], state["col_var"]
        rows.lerp_(g.norm(dim=-1, keepdim=True).square() / g.shape[-1], weight)
        columns.lerp_(g.norm(dim=-2, keepdim=True).square() / g.shape[-2], weight)
        return (rows @ columns) / rows.mean(dim=-2, keepdim=True).clamp(min=least)


def _root_mean_square(x: Tensor) -> float:
    return x.norm(2).item() / math.sqrt(x.numel())


class Muon(_ByParameter):
    """Momentum whose singular values are brought near 1, for the matrices of hidden layers (Jordan, 2024).

    Parameters are matrices; train biases, norms, embeddings and the last layer by AdamW. `adjust_lr_fn` scales `lr` by
    the shape of a matrix: "original" (the default), or "match_rms_adamw", for rates that were chosen for AdamW.

    >>> model = nn.Linear(3, 3)
    >>> optimizer = ex.optim.Muon([model.weight], lr=0.1)
    >>> model(ex.ones(1, 3)).sum().backward()
    >>> before = model.weight.detach().clone()
    >>> optimizer.step()
    >>> bool((model.weight - before).norm() > 0.05)
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if adjust_lr_fn not in _LEARNING_RATES:
            raise ArgumentError(f"Muon: adjust_lr_fn must be one of {_LEARNING_RATES}, got {adjust_lr_fn!r}")
        if len(ns_coefficients) != 3 or not 0 <= ns_steps < 100:
            raise ArgumentError(
                "Muon: expected three ns_coefficients and fewer than 100 ns_steps, "
                f"got {ns_coefficients} and {ns_steps}"
            )
        super().__init__(params, options_among(locals()))

    def _check_defaults(self, defaults: Mapping[str, Any]) -> None:
        super()._check_defaults(defaults)
        self._check_not_negative(defaults, "momentum", "weight_decay")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Train more matrices: `{"params": ..., option: value, ...}`."""
        super().add_param_group(param_group)
        for p in param_group["params"]:
            if p.ndim != 2:
                self.param_groups.pop()
                raise ShapeError(
                    f"Muon: expected matrices, got a parameter of shape {tuple(p.shape)}; train it by AdamW"
                )

    def _update(self, p: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = ops.zeros_like(gradient)
        momentum, lr = group["momentum"], number(group["lr"])
        average = state["momentum_buffer"].lerp_(gradient, 1.0 - momentum)
        direction = gradient.lerp(average, momentum) if group["nesterov"] else average
        update = _orthogonalised(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        p.mul_(1.0 - lr * group["weight_decay"])
        p.add_(update.to(p.dtype), alpha=-lr * _relative_rate(group["adjust_lr_fn"], *p.shape))


def _orthogonalised(matrix: Tensor, coefficients: tuple[float, float, float], n_steps: int, eps: float) -> Tensor:
    """A matrix of the same singular vectors, with singular values near 1, in bfloat16: a Newton-Schulz iteration.

    The polynomial a x + b x^3 + c x^5 is steep at 0, so that few steps do; it does not converge to 1 exactly.
    """
    a, b, c = coefficients
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.bfloat16().T if is_tall else matrix.bfloat16()
    x = x / x.norm().clamp(min=eps)
    for _ in range(n_steps):
        gram = x @ x.T
        x = _sum_rounded_once(a * x.float(), 1.0, _sum_rounded_once(b * gram.float(), c, gram, gram), x)
    return x.T if is_tall else x


def _sum_rounded_once(summand: Tensor, factor: float, left: Tensor, right: Tensor) -> Tensor:
    """summand + factor * left @ right in float32, rounded to bfloat16 at the end: PyTorch's bits of `addmm` there."""
    return (summand + factor * (left.float() @ right.float())).bfloat16()


def _relative_rate(kind: str | None, n_rows: int, n_columns: int) -> float:
    if kind == "match_rms_adamw":
        return 0.2 * math.sqrt(max(n_rows, n_columns))
    return math.sqrt(max(1.0, n_rows / n_columns))
