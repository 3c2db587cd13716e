"""Rows: where each row of a ragged tensor begins and ends, and the size that stands for their lengths in a shape.

One `Rows` is shared by all tensors that were computed from one another, so "the same rows" is nearly always one
comparison of identities. It is made of plain numbers, is never written to, and belongs to no graph.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..core.locks import cached_property
from ..core.storage import Array
from ..core.tensor import Tensor, from_array
from ..errors import IndexRangeError, ShapeError, UnsupportedError

_ARITHMETIC = (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod"),
    *("divmod", "rdivmod", "pow", "rpow", "neg", "pos", "abs", "lt", "le", "gt", "ge", "int", "float", "index", "bool"),
)


class RaggedSize:
    """The size of a ragged dimension: it stands in a shape, and is equal to that of tensors with the same lengths.

    It is no number: a computation that needs one would be wrong for all rows but one, and is an error.

    >>> x = ex.ragged([ex.zeros(2, 4), ex.zeros(3, 4)])
    >>> x.shape, x.shape[1] == ex.zeros_like(x).shape[1]
    (extempo.Size([2, *, 4]), True)
    """

    __slots__ = ("rows",)

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, RaggedSize) and self.rows.same(other.rows)

    def __hash__(self) -> int:
        return self.rows.size_hash

    def __repr__(self) -> str:
        return "*"

    def _no_number(self, *others: Any) -> NoReturn:
        raise UnsupportedError(
            "a computation needs the size of a ragged dimension as one number, but each row has its own; loop over the "
            "rows (`for row in x`), pad them (x.to_padded_tensor(0.0)), or use x.values() and x.lengths()"
        )


for _name in _ARITHMETIC:
    setattr(RaggedSize, f"__{_name}__", RaggedSize._no_number)


class Rows:
    """Consecutive pieces of one dimension: row i is [offsets[i], offsets[i + 1])."""

    def __init__(self, offsets: Array) -> None:
        offsets = np.ascontiguousarray(offsets, np.int64)
        if offsets.ndim != 1 or not offsets.size or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            raise ShapeError(
                f"ragged: offsets must begin with 0 and never decrease, one more than there are rows; got {offsets}"
            )
        offsets.flags.writeable = False
        self.offsets = offsets
        self.n = offsets.size - 1
        self.total = int(offsets[-1])

    @staticmethod
    def of_lengths(lengths: Any) -> Rows:
        lengths = np.asarray(lengths, np.int64)
        if lengths.ndim != 1 or (lengths < 0).any():
            raise ShapeError(f"ragged: lengths must be a list of numbers that are not negative, got {lengths}")
        return Rows(np.concatenate([[0], np.cumsum(lengths)]))

    def same(self, other: Rows) -> bool:
        """Whether both have as many rows, each as long as the other's."""
        return self is other or np.array_equal(self.offsets, other.offsets)

    def brief(self) -> str:
        """The lengths, for a message."""
        lengths = self.lengths.tolist()
        return str(lengths) if len(lengths) <= 8 else f"[{', '.join(map(str, lengths[:8]))}, ...] ({len(lengths)} rows)"

    def require_elements(self, name: str, least: int = 1) -> None:
        """Raise if a row has fewer elements than that, naming it."""
        if self.n and self.lengths.min() < least:
            row = int((self.lengths < least).argmax())
            advice = f"select longer rows first, as in x[x.lengths() >= {least}]"
            if least == 1:
                raise ShapeError(f"{name}: row {row} is empty, and so has no {name}; {advice}")
            raise IndexRangeError(
                f"{name}: row {row} has {self.lengths[row]} elements, {least} are asked for; {advice}"
            )

    @cached_property
    def lengths(self) -> Array:
        return np.diff(self.offsets)

    @cached_property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @cached_property
    def row_of(self) -> Array:
        """For each element the number of its row."""
        return np.repeat(np.arange(self.n), self.lengths)

    @cached_property
    def place_of(self) -> Array:
        """For each element its place in its row."""
        return np.arange(self.total) - self.offsets[:-1][self.row_of]

    def times(self, n: int) -> Rows:
        """Rows in which each element has become n."""
        return self if n == 1 else Rows(self.offsets * n)

    @cached_property
    def backwards(self) -> Array:
        """Where each element goes when every row is turned round."""
        return (self.offsets[:-1] + self.offsets[1:] - 1)[self.row_of] - np.arange(self.total)

    @property
    def size_hash(self) -> int:
        """Equal for the same lengths."""
        return hash((self.n, self.total))

    @property
    def packing(self) -> Any:
        """In which order recurrent layers go through the elements."""
        from .recurrent import packing_of

        return packing_of(self)

    # The same as tensors, for ops. They are values, never part of a key.

    @cached_property
    def offsets_tensor(self) -> Tensor:
        return from_array(self.offsets)

    @cached_property
    def lengths_tensor(self) -> Tensor:
        return from_array(self.lengths)

    @cached_property
    def row_of_tensor(self) -> Tensor:
        return from_array(self.row_of)

    @property
    def segments(self) -> tuple[Tensor, Tensor]:
        """What ops along rows take: offsets, and for each element the number of its row."""
        return self.offsets_tensor, self.row_of_tensor

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self.offsets,)

    def __repr__(self) -> str:
        return f"Rows({self.lengths.tolist()})"
