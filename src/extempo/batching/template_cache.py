"""Templates of kinds at the numbers of rows that came up; for levels, with weights that are packed once for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends.llvm.routines.gemm import n_packed, packed
from ..backends.selection import empty
from ..core.locks import cached_property
from ..core.storage import Array
from ..core.types import TensorType, float32
from ..scheduling.row_templates import Part, RowTemplate
from .packing import packed_parts

MOST_FILLED = 512  # numbers of rows that a template remembers; small ones, which come up often, for good
SMALL = 256


class ByRows(dict[int, Any]):
    """Something for each number of rows that came up."""

    def put(self, n: int, value: Any) -> Any:
        if len(self) >= MOST_FILLED:
            del self[next(known for known in self if known > SMALL)]
        self[n] = value
        return value


class FilledTemplate:
    """A template at the numbers of rows that came up."""

    def __init__(
        self, parts: Sequence[Part], sizes: Sequence[int], kinds: tuple[type, ...], weights: Sequence[int] = ()
    ) -> None:
        """`weights`: inputs, by position, that are the same in all batches."""
        self.template = RowTemplate(parts, sizes, kinds)
        self._given = (parts, sizes, kinds)
        self._weights = weights
        self._turned: dict[int, bool] = {}  # inputs that are read packed, and whether it is their transpose
        self._runs = ByRows()

    @cached_property
    def for_levels(self) -> FilledTemplate:
        """The same for levels, which read weights that were packed once for all of them."""
        parts, sizes, kinds = self._given
        found = packed_parts(parts, self._weights)
        if found is None:
            return self
        made = FilledTemplate(found[0], sizes, kinds)
        made._turned = found[1]
        return made

    def packed(self, reads: list[Array]) -> list[Array]:
        """Inputs, with those packed that are read so."""
        made = list(reads)
        for k, turned in self._turned.items():
            columns = made[k].T if turned else made[k]
            n_steps, n_columns = columns.shape
            made[k] = empty(TensorType((n_packed(n_columns, n_steps),), float32))
            packed(columns, made[k])
        return made

    def at(self, n: int) -> Any:
        """What runs it; raises Unplannable."""
        found = self._runs.get(n)
        return self._runs.put(n, self.template.at(n)) if found is None else found
