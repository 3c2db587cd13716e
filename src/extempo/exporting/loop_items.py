"""What a traced loop goes along: rows of tensors, ranges and lists whose length is known only when a program runs.

A loop over any of them is a loop over the slices of some tensors: `tree_of` gives those, in the structure of one item.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..core.graph import describe_where
from ..core.source_location import user_line
from ..core.tensor import Tensor
from ..errors import ExportError
from ..func.tree import leaves, mapped, rebuild
from ..symbolic.sym_int import SymInt, at_least_0, depends


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two sizes, for all sizes and without a decision."""
    return a - at_least_0(a - b)


def larger(a: Any, b: Any) -> Any:
    """The larger of two sizes."""
    return b + at_least_0(a - b)


class SymbolicRange:
    """`range` with a symbolic bound, or one that a value decides."""

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start = start
        self.stop = stop
        self.step = step

    @property
    def is_counted(self) -> bool:
        """Whether only values tell how many steps there are."""
        return any(isinstance(b, Tensor) for b in (self.start, self.stop, self.step))

    def tensor(self) -> Tensor:
        return ops.arange(self.start, self.stop, self.step)


class LoopItems:
    """Several things that are gone along at once: what `zip` and `enumerate` give, as a tree of tensors."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree

    def __iter__(self) -> Any:
        refuse_walk("zip or enumerate of a tensor of unknown length")


class StackedList:
    """A list that a traced loop appended to: what was in it before, and then the rows of some tensors."""

    def __init__(self, before: Any, rows: Any) -> None:
        """before: a list, or another StackedList. rows: the tree of an item, with one more dimension in front."""
        self._before = before
        self._rows = rows

    def tree(self) -> Any:
        """All items, as a tree of tensors with the list's dimension in front."""
        if isinstance(self._before, StackedList):
            first = leaves(self._before.tree())
        elif self._before:
            columns = zip(*[leaves(item) for item in self._before], strict=True)
            first = [ops.stack(column) for column in columns]
        else:
            return self._rows
        return rebuild(self._rows, iter([ops.cat(pair) for pair in zip(first, leaves(self._rows), strict=True)]))

    def stacked(self) -> Tensor:
        tree = self.tree()
        if not isinstance(tree, Tensor):
            raise ExportError(
                f"{describe_where(user_line())}: the items of this list are tuples; take their parts first, as in "
                "[item[0] for item in list]"
            )
        return tree

    def length(self) -> Any:
        return leaves(self.tree())[0]._type.shape[0]

    def joined(self, dim: int) -> Tensor:
        """What `cat` gives: the dimension of the list goes into another one."""
        whole = self.stacked()
        d = dim % (whole.ndim - 1)
        moved = whole.movedim(0, d)
        return moved.reshape(*moved.shape[:d], moved.shape[d] * moved.shape[d + 1], *moved.shape[d + 2 :])

    def reversed(self) -> StackedList:
        return StackedList([], mapped(lambda x: x.flip(0), self.tree()))

    def append(self, item: Any) -> None:
        """One more item, after the loop."""
        self._before, self._rows = StackedList(self._before, self._rows), mapped(lambda x: x.unsqueeze(0), item)

    def __getitem__(self, index: Any) -> Any:
        made = mapped(lambda x: x[index], self.tree())
        return StackedList([], made) if isinstance(index, slice) else made

    def __iter__(self) -> Any:
        refuse_walk("a list that a loop of unknown length appended to")


def refuse_walk(what: str) -> None:
    raise ExportError(
        f"{describe_where(user_line())}: {what} is gone through here, where a program cannot follow; loop over it with "
        "`for` or a list comprehension, or use ex.stack(list)"
    )


def tree_of(items: Any) -> Any:
    """The tensors whose slices a loop goes along, if their number is symbolic; None if it is known."""
    if isinstance(items, SymbolicRange):
        return None if items.is_counted else items.tensor()
    if isinstance(items, StackedList):
        return items.tree()
    if isinstance(items, LoopItems):
        return items.tree
    if isinstance(items, Tensor) and items.ndim and depends(items._type.shape[:1]):
        return items
    return None


def zipped(trees: list[Any], strict: bool) -> LoopItems:
    """Trees that are gone along at once, as far as the shortest goes; strict: all must be as long."""
    lengths = [leaves(tree)[0]._type.shape[0] for tree in trees]
    shortest = lengths[0]
    for length in lengths[1:]:
        if strict and length != shortest:
            raise ExportError(f"{describe_where(user_line())}: zip: the lengths {lengths} differ, and strict is set")
        shortest = smaller(shortest, length) if type(shortest) is SymInt or type(length) is SymInt else min(
            shortest, length
        )  # fmt: skip

    def cut(length: Any) -> Callable[[Tensor], Tensor]:
        alike = type(length) is type(shortest) and str(length) == str(shortest)
        return lambda x: x if alike else x.narrow(0, 0, shortest)

    return LoopItems(tuple(mapped(cut(n), tree) for n, tree in zip(lengths, trees, strict=True)))
