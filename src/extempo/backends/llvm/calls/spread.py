"""Reductions of tensors that are large only because they were expanded: part by part, so that they are never copied.

A floating sum has one order, fixed by its size. Here it is the same: rows and columns are summed by the same routine,
some at a time, and a long row in the pieces that `routines.reductions` has, whose sums are summed. An extreme of what
was expanded is that of one element, and the first is where it stands. NumPy's kernels do the rest (integer sums).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ....core.storage import Array
from ....core.types import TensorType, count, from_numpy_dtype
from ..routines.reductions import NARROW, PIECE
from ..routines.routine import ROUTINES, is_spread
from . import glue

_PART = 1 << 22  # elements that are copied at a time
_SUMS = frozenset({"sum", "mean", "vector_norm"})
_CHANGES: dict[float, Callable[[Array], Array]] = {1.0: np.abs, 2.0: np.square}  # by the order of a norm


class Spread:
    """The reduction of that name where its routine declines; `fallback` is its NumPy kernel."""

    def __init__(self, name: str, attrs: dict[str, Any], fallback: Callable[..., Any]) -> None:
        self._name = name
        self._attrs = attrs
        self._fallback = fallback

    def __call__(self, x: Any) -> Any:
        if not isinstance(x, np.ndarray) or not is_spread(x.shape, x.strides, x.itemsize):
            return self._fallback(x)
        if self._name in _SUMS and x.dtype.kind == "f" and self._attrs.get("ord", 2.0) in _CHANGES:
            return self._summed(x)
        return self._fallback(x) if self._name == "sum" else self._extreme(x)

    def _extreme(self, x: Array) -> Any:
        dim = self._attrs["dim"]
        dims = dim if isinstance(dim, tuple) else (dim,)
        one = x[tuple(slice(0, 1 if d in dims and stride == 0 else None) for d, stride in enumerate(x.strides))]
        if self._name == "vector_norm" or is_spread(one.shape, one.strides, one.itemsize):
            return self._fallback(one)
        return self._run(self._name, np.ascontiguousarray(one), self._attrs)

    def _summed(self, x: Array) -> Array:
        dim = self._attrs["dim"]
        reduced, kept = ([d for d, n in enumerate(x.shape) if n > 1 and (d in dim) is which] for which in (True, False))
        if not kept:
            return self._of_all(x)
        if not reduced or kept[0] < reduced[0]:
            return self._split(x, kept[0], 1)
        n_columns = count(x.shape[d] for d in kept)
        if kept[0] > reduced[-1] and n_columns >= NARROW:
            return self._split(x, kept[0], -(-NARROW * x.shape[kept[0]] // n_columns))
        return self._run(self._name, np.ascontiguousarray(x), self._attrs)

    def _split(self, x: Array, axis: int, least: int) -> Array:
        """Results along a dimension that stays do not depend on one another; at least so many are computed together."""
        size = x.shape[axis]
        per_part = max(least, _PART * size // x.size, 1)
        ends = np.linspace(0, size, max(size // per_part, 1) + 1).astype(int).tolist()
        way = (slice(None),) * axis
        made = [
            self._run(self._name, np.ascontiguousarray(x[(*way, slice(first, end))]), self._attrs)
            for first, end in pairwise(ends)
        ]
        before = 0 if self._attrs["keepdim"] else sum(d < axis for d in self._attrs["dim"])
        return np.concatenate(made, axis - before)

    def _of_all(self, x: Array) -> Array:
        """One long row, in pieces."""
        flat: Any
        try:
            flat = x.reshape(x.size, copy=False)
        except ValueError:  # it does not run through memory in even steps
            flat = x.flat
        change = _CHANGES[self._attrs["ord"]] if "ord" in self._attrs else np.asarray
        sums = np.empty(-(-x.size // PIECE), x.dtype)
        n_whole, at_once = x.size // PIECE, _PART // PIECE
        for first in range(0, n_whole, at_once):
            end = min(first + at_once, n_whole)
            part = change(np.array(flat[first * PIECE : end * PIECE]).reshape(-1, PIECE))
            sums[first:end] = self._run("sum", part, {"dim": (1,), "keepdim": False})
        if n_whole < len(sums):
            part = change(np.array(flat[n_whole * PIECE : x.size]))
            sums[-1] = self._run("sum", part, {"dim": (0,), "keepdim": False})
        total = self._run("sum", sums, {"dim": (0,), "keepdim": False})
        if self._name == "mean":
            total = total / np.asarray(x.size, x.dtype)
        elif self._attrs.get("ord") == 2.0:
            total = np.sqrt(total)
        dim, keepdim = self._attrs["dim"], self._attrs["keepdim"]
        return np.asarray(total, x.dtype).reshape([1 for d in range(x.ndim) if keepdim or d not in dim])

    def _run(self, name: str, x: Array, attrs: dict[str, Any]) -> Any:
        t = TensorType(x.shape, from_numpy_dtype(x.dtype))
        bound = ROUTINES[name]((t,), attrs)
        run = None if bound is None else glue.callable_of(name, bound, (t,), self._fallback)
        assert run is not None  # as there was one for the whole
        return run(x)
