"""Ragged tensors as arguments and results of programs: two tensors each, the values and the offsets of the rows.

While a model is traced nobody knows how long rows are: their number and the sum of their lengths are symbolic sizes,
and `TracedRows` gives what ops along rows read as ops on the offsets. Code that must have a length as a number (a loop
over rows, padding to the longest) gets an error with its line.
"""

from __future__ import annotations

from typing import Any, NoReturn

from .. import ops
from ..core.graph import describe_where
from ..core.source_location import user_line
from ..core.storage import Array
from ..core.tensor import Tensor
from ..errors import ExportError
from ..ragged_tensors.recurrent import Packing
from ..ragged_tensors.rows import Rows
from ..ragged_tensors.tensor import RaggedTensor


def joined(values: Tensor, offsets: Tensor, dim: int) -> RaggedTensor:
    """The ragged tensor of these values, whose rows begin at these offsets."""
    traced = offsets._data is None
    rows = TracedRows(offsets, values._type.shape[dim - 1]) if traced else Rows(offsets.detach().numpy())
    return RaggedTensor(values, rows, dim)


class TracedRows(Rows):
    """Rows whose lengths are known only when the program runs."""

    def __init__(self, offsets: Tensor, total: Any) -> None:
        # All of it is made here, since what is made inside a branch or loop could not be read outside. What nobody
        # reads is no part of the program.
        self.n = offsets._type.shape[0] - 1
        self.total = total
        self.offsets_tensor = offsets
        starts, ends = offsets[:-1], offsets[1:]
        self.lengths_tensor = ends - starts
        elements = ops.arange(total)
        self.row_of_tensor = (ends <= elements.unsqueeze(1)).sum(1)  # rows that end at or before an element
        self._places = elements - starts[self.row_of_tensor]

    @property
    def size_hash(self) -> int:
        return id(self)

    @property
    def packing(self) -> Packing:
        """The longest row may have all elements: there are as many steps, and at most steps no row has an element."""
        steps = ops.arange(self.total)
        order = self.lengths_tensor.argsort(descending=True, stable=True)
        sizes = (self.lengths_tensor > steps.unsqueeze(1)).sum(1)
        places = (sizes.cumsum(0) - sizes)[self._places] + order.argsort()[self.row_of_tensor]
        return Packing(order, order.argsort(), sizes, places.argsort(), places)

    def same(self, other: Rows) -> bool:
        if self is other:
            return True
        raise _unknown("two ragged tensors go together only if their rows have the same lengths; make both of one")

    def times(self, n: int) -> Rows:
        return self if n == 1 else TracedRows(self.offsets_tensor * n, self.total * n)

    def require_elements(self, name: str, least: int = 1) -> None:
        """Rows that are too short are no error of a program: they have the result of no elements."""

    def brief(self) -> str:
        return "of any length"

    def __reduce__(self) -> NoReturn:
        raise _unknown("it cannot be copied")

    def __repr__(self) -> str:
        return f"TracedRows({self.n})"

    def _length(self) -> NoReturn:
        raise _unknown("loop with ex.scan, use functions of all rows at once (sums, softmax, attention, LSTM)")

    offsets: Array = property(_length)  # type: ignore[assignment] # no one gets there
    lengths: Array = property(_length)  # type: ignore[assignment]
    longest: int = property(_length)  # type: ignore[assignment]
    row_of: Array = property(_length)  # type: ignore[assignment]
    place_of: Array = property(_length)  # type: ignore[assignment]
    backwards: Array = property(_length)  # type: ignore[assignment]


def _unknown(advice: str) -> ExportError:
    return ExportError(
        f"{describe_where(user_line())}: the lengths of the rows of a ragged tensor are read as numbers here, and "
        f"every call of the program has others; {advice}"
    )
