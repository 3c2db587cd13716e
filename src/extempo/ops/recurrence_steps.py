"""What recurrent ops over packed rows share: the rows of each step, checks, and gradients step by step.

The gradients are written in arithmetic that arrays and tensors share: on arrays they are NumPy kernels, on tensors they
are made of ops, and so can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.context import is_grad_enabled
from ..core.storage import Array
from ..core.types import InputType, TensorType, int64
from ..core.wording import input_misfit
from ..errors import DtypeError, ShapeError

# ---- steps


def stretches(sizes: Sequence[int], backwards: bool) -> list[slice]:
    """The rows of each step, in the order in which steps are computed."""
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    found = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True) if size]
    return found[::-1] if backwards else found


def listed_sizes(op: str, sizes: Array, n_rows: int, n_sequences: int) -> list[int]:
    """The sizes of steps, if they are those of packed rows."""
    listed: list[int] = sizes.tolist()
    falling = all(a >= b for a, b in zip([n_sequences, *listed], [*listed, 0], strict=True))
    if not falling or sum(listed) != n_rows:
        raise ShapeError(
            f"{op}: the sizes of steps must not grow, begin with at most the {n_sequences} sequences there are and add "
            f"up to the {n_rows} rows, got {listed}"
        )
    return listed


def check_types(
    op: str, width: int, x: TensorType, weight: TensorType, bias: InputType, sizes: InputType, /,
    **others: tuple[InputType, tuple[int, ...]],
) -> None:  # fmt: skip
    """Everything is of one floating dtype and has the shape that goes with the others; `width`: of all gates."""
    if not x.dtype.is_floating_point or x.ndim != 2:
        if isinstance(weight, TensorType) and x.dtype is not weight.dtype:
            raise DtypeError(input_misfit(op, x.dtype, "input_weight", weight.dtype))
        raise DtypeError(f"{op}: expected floating rows (steps of all sequences, features), got {x}")
    if not isinstance(sizes, TensorType) or sizes.dtype is not int64 or sizes.ndim != 1:
        raise DtypeError(f"{op}: expected the sizes of steps as an int64 tensor (steps,), got {sizes}")
    inputs = {"input_weight": (weight, (width, x.shape[1])), "input_bias": (bias, (width,))}
    for name, (given, shape) in {**inputs, **others}.items():
        if not isinstance(given, TensorType):
            continue
        if given.dtype is not x.dtype:
            raise DtypeError(input_misfit(op, x.dtype, name, given.dtype))
        if given.shape != shape:
            raise ShapeError(f"{op}: {name} must be {shape} for an input {x.shape}, got {given.shape}")


def rounded(dtype: Any, *arrays: Array) -> tuple[Array, ...]:
    return tuple(a.astype(dtype, copy=False) for a in arrays)


def sigmoid(x: Array) -> Array:
    result: Array = np.tanh(x * 0.5) * 0.5 + 0.5
    return result


# ---- gradients, in arithmetic that arrays and tensors share


class Arrays:
    """NumPy's functions under the names that they have in `ops`."""

    tanh = staticmethod(np.tanh)

    @staticmethod
    def cat(parts: Any, dim: int = 0) -> Any:
        return np.concatenate(parts, dim)

    @staticmethod
    def zeros(*shape: int, dtype: Any) -> Any:
        return np.zeros(shape, dtype)


class _Walk:
    """Through the steps in reverse, with the gradients of the states after each; those of rows are collected."""

    def __init__(self, library: Any, sizes: Sequence[int], backwards: bool, states: Sequence[Any], like: Any) -> None:
        """`like`: zeros (sequences, hidden), for states that have no gradient."""
        self.cat, self.states = library.cat, [like if s is None else s for s in states]
        self._stretches = stretches(sizes, not backwards)
        self._descending = not backwards
        self._made: list[list[Any]] = []
        self._at = slice(0)

    def __iter__(self) -> Iterator[list[Any]]:
        """For each step, the gradients of the states of the sequences that have it."""
        for at in self._stretches:
            self._at = at
            yield [s[: at.stop - at.start] for s in self.states]

    def rows(self, values: Any) -> Any:
        """The rows of this step; 0 where there are no values."""
        return 0 if values is None else values[self._at]

    def leave(self, rows: list[Any], states: list[Any]) -> None:
        """What a step gives: gradients of its rows and of the states before it."""
        n = self._at.stop - self._at.start
        self._made.append(rows)
        self.states = [self.cat((new, old[n:])) for new, old in zip(states, self.states, strict=True)]

    def results(self, *empty: Any) -> tuple[Any, ...]:
        """Gradients of all rows (`empty` if there are none), then those of the initial states."""
        if not self._made:
            return *empty, *self.states
        made = self._made[::-1] if self._descending else self._made
        rows = [self.cat(parts) for parts in zip(*made, strict=True)]
        return *rows, *self.states


def blocks(x: Any, n: int) -> list[Any]:
    """A matrix as blocks of `n` columns."""
    return [x[:, i : i + n] for i in range(0, x.shape[1], n)]


def lstm_gradient(
    library: Any, g: Sequence[Any], weight: Any, gates: Any, before_c: Any, sizes: list[int], *,
    backwards: bool, n_sequences: int,
) -> tuple[Any, ...]:  # fmt: skip
    """Those of x and of both initial states; `g`: of all results."""
    of_rows, of_h, of_c, of_gates, of_before_h, of_before_c = g
    n = weight.shape[1]
    like = library.zeros(n_sequences, n, dtype=weight.dtype)
    walk = _Walk(library, sizes, backwards, (of_h, of_c), like)
    for h, c in walk:
        i, f, new, o = blocks(walk.rows(gates), n)
        before = walk.rows(before_c)
        bent = library.tanh(f * before + i * new)
        h = h + walk.rows(of_rows)
        c = c + h * o * (1 - bent * bent)
        into = [c * new, c * before, c * i, h * bent]
        if of_gates is not None:
            into = [a + b for a, b in zip(into, blocks(walk.rows(of_gates), n), strict=True)]
        slopes = [i * (1 - i), f * (1 - f), 1 - new * new, o * (1 - o)]
        rows = walk.cat([a * b for a, b in zip(into, slopes, strict=True)], 1)
        walk.leave([rows], [rows @ weight + walk.rows(of_before_h), c * f + walk.rows(of_before_c)])
    return walk.results(gates[:0])


def gru_gradient(
    library: Any, g: Sequence[Any], weight: Any, gates: Any, before: Any, sizes: list[int], *,
    backwards: bool, n_sequences: int,
) -> tuple[Any, ...]:  # fmt: skip
    """Those of x, of what comes from the state in its place, and of the initial state; `g`: of all results."""
    of_rows, of_h, of_gates, of_before = g
    n = weight.shape[1]
    walk = _Walk(library, sizes, backwards, (of_h,), library.zeros(n_sequences, n, dtype=weight.dtype))
    for (h,) in walk:
        reset, update, new, from_state = blocks(walk.rows(gates), n)
        h = h + walk.rows(of_rows)
        into_update, into_new = h * (walk.rows(before) - new), h * (1 - update)
        extra = [0] * 4 if of_gates is None else blocks(walk.rows(of_gates), n)
        into_new = (into_new + extra[2]) * (1 - new * new)
        both = [
            (into_new * from_state + extra[0]) * reset * (1 - reset),
            (into_update + extra[1]) * update * (1 - update),
        ]
        of_x, of_state = (walk.cat([*both, last], 1) for last in (into_new, into_new * reset + extra[3]))
        walk.leave([of_x, of_state], [h * update + of_state @ weight + walk.rows(of_before)])
    return walk.results(gates[:0, : 3 * n], gates[:0, : 3 * n])


def rnn_gradient(
    library: Any, g: Sequence[Any], weight: Any, rows: Any, sizes: list[int], *,
    relu: bool, backwards: bool, n_sequences: int,
) -> tuple[Any, ...]:  # fmt: skip
    """Those of x and of the initial state; `g`: of all results."""
    of_rows, of_h, of_before = g
    walk = _Walk(library, sizes, backwards, (of_h,), library.zeros(n_sequences, weight.shape[1], dtype=weight.dtype))
    for (h,) in walk:
        y = walk.rows(rows)
        of_x = (h + walk.rows(of_rows)) * ((y > 0) if relu else 1 - y * y)
        walk.leave([of_x], [of_x @ weight + walk.rows(of_before)])
    return walk.results(rows[:0])


def is_composite(inner: Sequence[Any]) -> bool:
    """Whether a gradient is made of ops: it will be differentiated, or results that only gradients read have one."""
    return is_grad_enabled() or any(g is not None for g in inner)
