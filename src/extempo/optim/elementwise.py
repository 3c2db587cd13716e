"""Optimizers whose update treats every element alike: one fused pass over flat memory does a whole group.

A subclass says what state it keeps (`_state_names`, or `_names` where that depends on options) and how one step goes
(`_rule`): numbers for this step, and a formula of single elements (see `dispatch.fused_update`). The memory of values
and state, which parameters take part and when, is `flat_buffers`' business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.context import enable_grad
from ..core.source_location import user_line
from ..core.tensor import Tensor
from ..dispatch.fused_update import Formula, Update, UpdateKernel
from ..errors import ArgumentError, ShapeError
from .change_detection import SAME_CONTENTS, SAME_OPTIONS, Seen, contents_of, options_of, unknown
from .differentiable import step_recorded
from .flat_buffers import Layout, Names, Rule, Workspaces
from .optimizer import Optimizer, number, scalar

# What options must be, whichever optimizer has them; NaN is none of it.
_RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("eps", "weight_decay", "momentum", "alpha", "lr_decay", "momentum_decay", "initial_accumulator_value"),
        (lambda value: value >= 0.0, "not be negative"),
    ),
    "rho": (lambda rho: 0.0 <= rho <= 1.0, "lie between 0 and 1"),
    "etas": (lambda etas: 0.0 < etas[0] < 1.0 < etas[1], "be a factor between 0 and 1 and one above 1"),
}


class ElementwiseOptimizer(Optimizer):
    """An optimizer that updates each group in one pass.

    `foreach=` and `fused=` choose implementations in PyTorch and `capturable=` is about CUDA graphs; here the fused
    pass is the default and they change nothing. `differentiable=True` runs the same formula as tensor operations.
    """

    _state_names: Names

    def _check_defaults(self, defaults: Mapping[str, Any]) -> None:
        super()._check_defaults(defaults)
        name = type(self).__name__
        for key, (is_allowed, rule) in _RANGES.items():
            if key in defaults and not is_allowed(number(defaults[key])):
                raise ArgumentError(f"{name}: {key} must {rule}, got {defaults[key]}")
        self._check_betas(defaults.get("betas", ()))

    def _check_betas(self, betas: tuple[Any, ...]) -> None:
        name = type(self).__name__
        if len({isinstance(beta, Tensor) for beta in betas}) > 1:
            raise ArgumentError(f"{name}: betas must be two numbers or two tensors, got one of each")
        for i, beta in enumerate(betas):
            if isinstance(beta, Tensor) and beta.numel() != 1:
                raise ShapeError(f"{name}: a tensor in betas must have one element, got shape {tuple(beta.shape)}")
            if not 0.0 <= number(beta) < 1.0:
                raise ArgumentError(f"{name}: betas[{i}] must be at least 0 and below 1, got {beta}")

    def _forget_layout(self) -> None:
        self._layouts: list[Layout] = []
        self._seen = Seen()
        self._rules: list[tuple[Names, Rule]] = []
        self._workspaces = Workspaces()

    def _names(self, group: dict[str, Any]) -> Names:
        """The state kept for each parameter of the group, with its initial values."""
        return self._state_names

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
        groups, state, seen = self.param_groups, self.state, self._seen
        if self.defaults.get("differentiable"):
            for group in groups:
                step_recorded(group, self._names(group), self._rule(group), state)
            return loss
        same = seen.same(groups, state)
        unchanged = bool(same & SAME_CONTENTS)
        if len(self._layouts) != len(groups):
            self._layouts = [Layout() for _ in groups]
        if not unchanged:
            seen.contents = unknown()
        if not same & SAME_OPTIONS:
            self._rules = []
            seen.options = options_of(groups)
        where = user_line()
        rules = self._rules
        for i, group in enumerate(groups):
            if i == len(rules):
                rules.append((self._names(group), self._rule(group)))
            names, rule = rules[i]
            self._layouts[i].step(group["params"], names, rule, state, self._workspaces, where, unchanged)
        if not unchanged:
            seen.contents = contents_of(groups, state)
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


# ---- pieces of formulas


def lerp(average: Any, g: Any, weight: Any, near: bool) -> Any:
    """average + weight * (g - average), from the nearer end, so that a weight of 1 gives exactly g."""
    return average + (g - average) * weight if near else g - (g - average) * weight


def lerp_weight(weight: float) -> tuple[float, bool]:
    """The last two arguments of `lerp` for a weight from 0 to 1."""
    return (weight, True) if weight < 0.5 else (1.0 - weight, False)


def average_square(average: Any, g: Any, decay: Any, rest: Any) -> Any:
    """decay * average + rest * g * g, where rest is 1 - decay."""
    return average * decay + g * g * rest


def kind_of(
    formula: Formula, group: dict[str, Any], lr: float, *choices: bool
) -> tuple[UpdateKernel, tuple[float, ...]]:
    """The kind of update, after what `maximize` and `weight_decay` ask for has been done to the gradient or the values.

    Beside it the numbers that follow the formula's own.
    """
    decay, maximize = scalar(group, "weight_decay", 0.0), bool(group["maximize"])
    if decay == 0:
        return UpdateKernel(formula, choices, maximize), ()
    if group.get("decoupled_weight_decay", False):
        return UpdateKernel(formula, choices, maximize, "decoupled"), (1.0 - lr * decay,)
    return UpdateKernel(formula, choices, maximize, "added"), (decay,)


def update_of(formula: Formula, numbers: tuple[float, ...], group: dict[str, Any], lr: float, *choices: bool) -> Update:
    """The update of a rule that chooses anew in each step."""
    kind, more = kind_of(formula, group, lr, *choices)
    return Update(kind, numbers + more)
