"""LBFGS: quasi-Newton steps from the last few changes of the gradient, with an optional strong-Wolfe line search.

Directions by the two-loop recursion (Nocedal, 1980); the line search brackets a step and narrows it by cubic
interpolation (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6), with PyTorch's constants and limits.
All parameters are one vector. The state belongs to the first parameter, as in PyTorch's checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import ops
from ..core.context import enable_grad, no_grad
from ..core.tensor import Tensor
from ..errors import ArgumentError, DtypeError
from .optimizer import Optimizer, ParamsT, number, options_among

__all__ = ["LBFGS"]

_SUFFICIENT_DECREASE = 1e-4
_CURVATURE = 0.9
_LEAST_CURVATURE = 1e-10  # pairs below this would make the direction point uphill
_LEAST_CHANGE = 1e-9


class Point(NamedTuple):
    """The objective at one step length: value, gradient, slope along the direction."""

    t: float
    loss: float
    gradient: Tensor
    slope: float


Evaluate = Callable[[float], Point]


class LBFGS(Optimizer):
    """Limited-memory BFGS. `step` needs a closure that computes the loss and its gradient, and calls it several times.

    >>> w = ex.tensor([3.0, -4.0], requires_grad=True)
    >>> optimizer = ex.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - ex.tensor([1.0, 2.0])) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> loss = optimizer.step(closure)
    >>> ex.allclose(w, ex.tensor([1.0, 2.0]))
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(f"LBFGS: line_search_fn must be None or 'strong_wolfe', got {line_search_fn!r}")
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, options_among(locals()))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """LBFGS has one group: its curvature is one vector over all parameters."""
        if self.param_groups:
            raise ArgumentError("LBFGS: all parameters are one vector with one set of options; pass one group")
        super().add_param_group(param_group)

    def remap(self, changes: Mapping[Tensor, Any]) -> None:
        """Replace parameters. The curvature learned so far belongs to the old vector, so it starts anew."""
        super().remap(changes)
        if changes:
            self.state.clear()

    def _join(self, parameters: list[Tensor], group: dict[str, Any], names: Any = None) -> None:
        super()._join(parameters, group, names)
        if parameters:
            self.state.clear()

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    # ---- the vector of all parameters

    def _gradient(self) -> Tensor:
        pieces = [ops.zeros_like(p).reshape(-1) if p.grad is None else p.grad.reshape(-1) for p in self._params]
        return ops.cat([piece.detach() for piece in pieces])

    def _move(self, t: float, direction: Tensor) -> None:
        offset = 0
        for p in self._params:
            p.add_(direction[offset : offset + p.numel()].view_as(p), alpha=t)
            offset += p.numel()

    def _evaluate(self, closure: Callable[[], Any], start: list[Tensor], t: float, direction: Tensor) -> Point:
        """The objective a step of `t` away; the parameters are back at the start afterwards."""
        self._move(t, direction)
        try:
            with enable_grad():
                loss = float(closure())
            gradient = self._gradient()
        finally:
            for p, value in zip(self._params, start, strict=True):
                p.copy_(value)
        return Point(t, loss, gradient, _dot(gradient, direction))

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to `max_iter` iterations; returns the loss before them."""
        if closure is None:
            raise DtypeError(
                "LBFGS.step: needs a closure that computes the loss, calls backward() and returns the loss"
            )
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with enable_grad():
            first_loss = closure()
        gradient, loss = self._gradient(), float(first_loss)
        n_evaluations = 1
        state["func_evals"] += 1
        if _largest(gradient) <= group["tolerance_grad"]:
            return first_loss
        for n_iterations in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, gradient, group["history_size"])
            state["d"], state["prev_flat_grad"], state["prev_loss"] = direction, gradient.clone(), loss
            t = number(group["lr"])
            if state["n_iter"] == 1:
                t *= min(1.0, 1.0 / gradient.abs().sum().item())
            state["t"] = t
            slope = _dot(gradient, direction)
            if slope > -group["tolerance_change"]:
                break
            n_new = 0
            if group["line_search_fn"] is not None:
                start = [p.detach().clone() for p in self._params]
                here = Point(0.0, loss, gradient, slope)

                def evaluate(t: float, start: list[Tensor] = start, direction: Tensor = direction) -> Point:
                    return self._evaluate(closure, start, t, direction)

                search = _Search(evaluate, here, _largest(direction), group["max_eval"] - n_evaluations)
                found = search.run(t)
                t, loss, gradient, n_new = found.t, found.loss, found.gradient, search.n_evaluations
                state["t"] = t
                self._move(t, direction)
            else:
                self._move(t, direction)
                if n_iterations < group["max_iter"]:
                    with enable_grad():
                        loss = float(closure())
                    gradient, n_new = self._gradient(), 1
            n_evaluations += n_new
            state["func_evals"] += n_new
            if (
                n_evaluations >= group["max_eval"]
                or _largest(gradient) <= group["tolerance_grad"]
                or _largest(direction) * abs(t) <= group["tolerance_change"]
                or abs(loss - state["prev_loss"]) < group["tolerance_change"]
            ):
                break
        return first_loss

    @staticmethod
    def _direction(state: dict[str, Any], gradient: Tensor, history_size: int) -> Tensor:
        """Downhill, scaled by the curvature seen so far."""
        if state["n_iter"] == 1:
            state["old_dirs"], state["old_stps"], state["ro"], state["H_diag"] = [], [], [], 1.0
            return -gradient
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = gradient - state["prev_flat_grad"], state["d"] * float(state["t"])
        curvature = _dot(change, step)
        if curvature > _LEAST_CURVATURE:
            if len(changes) == history_size:
                for memory in (changes, steps, inverses):
                    del memory[0]
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / _dot(change, change)
        direction = -gradient
        weights = []
        for y, s, inverse in zip(reversed(changes), reversed(steps), reversed(inverses), strict=True):
            weight = _dot(s, direction) * float(inverse)
            weights.append(weight)
            direction.sub_(y, alpha=weight)
        direction.mul_(float(state["H_diag"]))
        for y, s, inverse, weight in zip(changes, steps, inverses, reversed(weights), strict=True):
            direction.add_(s, alpha=weight - _dot(y, direction) * float(inverse))
        return direction


def _dot(a: Tensor, b: Tensor) -> float:
    return a.dot(b).item()


def _largest(x: Tensor) -> float:
    return x.abs().max().item()


class _Search:
    """A search along one direction for a step that fulfils the strong Wolfe conditions."""

    def __init__(self, evaluate: Evaluate, start: Point, reach: float, most_steps: int) -> None:
        self.evaluate = evaluate
        self.start = start
        self.reach = reach  # the largest change of a parameter for a step of 1
        self.most_steps = most_steps
        self.n_steps = 0
        self.n_evaluations = 0

    def run(self, t: float) -> Point:
        """The best point found, starting with a step of `t`."""
        point = self._at(t)
        bracket = self._bracket(point)
        if len(bracket) == 1:
            return bracket[0]
        return self._zoom(bracket)

    def _at(self, t: float) -> Point:
        self.n_evaluations += 1
        return self.evaluate(t)

    def _too_high(self, point: Point) -> bool:
        return point.loss > self.start.loss + _SUFFICIENT_DECREASE * point.t * self.start.slope

    def _flat_enough(self, point: Point) -> bool:
        return abs(point.slope) <= -_CURVATURE * self.start.slope

    def _bracket(self, point: Point) -> list[Point]:
        """One point that will do, or two with one between them."""
        before = self.start
        while self.n_steps < self.most_steps:
            if self._too_high(point) or (self.n_steps > 1 and point.loss >= before.loss):
                return [before, point]
            if self._flat_enough(point):
                return [point]
            if point.slope >= 0:
                return [before, point]
            bounds = point.t + 0.01 * (point.t - before.t), point.t * 10.0
            t = _cubic_minimum(before, point, bounds)
            before, point = point, self._at(t)
            self.n_steps += 1
        return [self.start, point]

    def _zoom(self, bracket: list[Point]) -> Point:
        """Narrow the bracket until a point in it will do."""
        low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
        stalled = False
        while self.n_steps < self.most_steps:
            left, right = sorted(p.t for p in bracket)
            if (right - left) * self.reach < _LEAST_CHANGE:
                break
            t, stalled = self._inside(_cubic_minimum(bracket[0], bracket[1], (left, right)), left, right, stalled)
            point = self._at(t)
            self.n_steps += 1
            if self._too_high(point) or point.loss >= bracket[low].loss:
                bracket[high] = point
                low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
                continue
            done = self._flat_enough(point)
            if not done and point.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
            if done:
                break
        return bracket[low]

    @staticmethod
    def _inside(t: float, left: float, right: float, stalled: bool) -> tuple[float, bool]:
        """Keep away from the ends when the last trial was near one too, or when it is an end."""
        margin = 0.1 * (right - left)
        if min(right - t, t - left) >= margin:
            return t, False
        if stalled or t >= right or t <= left:
            return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
        return t, True


def _cubic_minimum(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """Where the cubic through both points with their slopes is lowest, within the bounds."""
    least, most = bounds
    left, right = (a, b) if a.t <= b.t else (b, a)
    d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0.0:
        return (least + most) / 2.0
    d2 = square**0.5
    bend = right.slope - left.slope + 2.0 * d2
    if bend == 0.0:
        return most  # a straight line: as far as allowed
    position = right.t - (right.t - left.t) * ((right.slope + d2 - d1) / bend)
    return min(max(position, least), most)
