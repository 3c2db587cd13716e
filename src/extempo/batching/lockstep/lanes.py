"""The samples that run in lockstep: how many there are, and the sizes of each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...core.locks import cached_property
from ...core.storage import Array
from ...core.tensor import Tensor, from_array
from ...exporting.sizes import Opaque, SizeExpr
from ...ragged_tensors.rows import Rows

_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "/": np.true_divide,
    "*": np.multiply,
    "+": np.add,
    "-": np.subtract,
    "**": np.power,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "<<": np.left_shift,
    ">>": np.right_shift,
}


class PairRows:
    """Matrices of each sample, of n lines and m columns, end to end."""

    def __init__(self, n: Array, m: Array) -> None:
        self._n, self._m = n, m
        self.rows = Rows.of_lengths(n * m)  # the elements of each sample
        self.lines = Rows.of_lengths(np.repeat(m, n))  # the elements of each line

    @cached_property
    def samples(self) -> Tensor:
        """For each element the number of its sample."""
        return self.rows.row_of_tensor

    @cached_property
    def columns(self) -> Tensor:
        """For each element the number of its column, among those of all samples."""
        firsts = np.cumsum(self._m) - self._m
        return from_array(self.lines.place_of + firsts[self.rows.row_of])

    @cached_property
    def turned(self) -> Tensor:
        """Where the elements are found in the order of transposed matrices."""
        n, m = self._n[self.rows.row_of], self._m[self.rows.row_of]
        place = self.rows.place_of
        return from_array(self.rows.offsets[:-1][self.rows.row_of] + place % n * m + place // n)


class Lanes:
    """Samples side by side. A size that is each one's own is an array with an entry for each."""

    def __init__(self, n: int, sizes: Mapping[str, Array]) -> None:
        self.n = n
        self.sizes = sizes
        self._numbers: dict[SizeExpr, Array] = {}
        self._rows: dict[SizeExpr, Rows] = {}
        self._pairs: dict[tuple[Any, Any], PairRows] = {}
        self.packings: dict[int, Any] = {}  # of rows, by their ids, with the rows

    def numbers(self, expression: Any) -> Array:
        """What an expression of sizes is for each sample."""
        found = self._numbers.get(expression)
        if found is None:
            made = np.asarray(_evaluated(expression, self.sizes))
            found = self._numbers[expression] = np.broadcast_to(made, (self.n,))
        return found

    def rows(self, expression: Any) -> Rows:
        """Rows with so many elements of each sample, an expression of sizes."""
        found = self._rows.get(expression)
        if found is None:
            offsets = np.zeros(self.n + 1, np.int64)
            np.cumsum(self.numbers(expression), out=offsets[1:])
            found = self._rows[expression] = Rows(offsets)
        return found

    def pairs(self, n: Any, m: Any) -> PairRows:
        """Matrices with so many lines and columns of each sample, expressions of sizes."""
        found = self._pairs.get((n, m))
        if found is None:
            found = self._pairs[n, m] = PairRows(self.numbers(n), self.numbers(m))
        return found

    def of(self, number: int) -> dict[str, int]:
        """The sizes of one sample."""
        return {name: int(values[number]) for name, values in self.sizes.items()}

    def some(self, which: Array) -> Lanes:
        """Those samples, in this order: numbers, or a flag for each."""
        sizes = {name: values[which] for name, values in self.sizes.items()}
        return Lanes(int(np.count_nonzero(which)) if which.dtype == bool else len(which), sizes)

    def first(self, n: int) -> Lanes:
        """The first n samples."""
        made = Lanes(n, {name: values[:n] for name, values in self.sizes.items()})
        made._rows = {expression: Rows(rows.offsets[: n + 1]) for expression, rows in self._rows.items()}
        return made


def _evaluated(expression: SizeExpr, sizes: Mapping[str, Array]) -> Any:
    total: Any = 0
    for factors, coefficient in expression.terms:
        values = [sizes[f] if isinstance(f, str) else _opaque(f, sizes) for f in factors]
        total = total + functools.reduce(np.multiply, values, coefficient)
    return total


def _opaque(factor: Opaque, sizes: Mapping[str, Array]) -> Any:
    parts = [_evaluated(part, sizes) for part in factor.parts]
    if factor.sign == "max0":
        return np.maximum(parts[0], 0)
    if factor.sign in ("//", "%"):
        whole = np.floor_divide if factor.sign == "//" else np.mod
        empty = np.asarray(parts[1]) == 0  # a size divided by an empty one is about no elements
        return np.where(empty, 0, whole(parts[0], np.where(empty, 1, parts[1])))
    if factor.sign == "/" and not np.all(parts[1]):
        raise ZeroDivisionError("division by zero")  # as in the sample that it is about, which is recorded
    return _OPERATIONS[factor.sign](*parts)
