"""Forms: how calls of one op that differ in their sizes run together.

A form belongs to a kind, and says what that kind's calls are in a batch of several sizes: so many rows, so many rows of
some length. Kinds whose forms are of one class and have the same *family* go together. A form's class runs their calls:
it takes their inputs from the table of the run and leaves their results there, each as a piece of one array
(`RowTable.add_pieces`), and makes the `Group` that backward goes through.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from ...core.op import Op
from ...core.storage import Array
from ...core.types import TensorType
from ..gradients import Group, Layout
from ..kinds import CallKind, Input
from ..op_kinds import OpKind
from ..sharing import SharedInputs

if TYPE_CHECKING:
    from ..run import BatchExecutor

Line = tuple[int, int]  # id of a code object, instruction


class Form(Protocol):
    """What calls of one kind are in a batch of several sizes."""

    @property
    def family(self) -> Any:
        """What forms of one class must share to go together; it can be hashed."""
        ...

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        """Run calls of this form."""
        ...


class SizedKind(CallKind):
    """What calls of one op at several sizes have in common."""

    __slots__ = ("family", "form", "lines", "op", "weights")

    op: type[Op]
    form: type[Form]
    family: Any
    lines: set[Line]  # that made such calls
    weights: list[int]  # inputs that are too large to be copied for each row of a call


class SizedBatch:
    """Calls of one op at several sizes that are about to run."""

    __slots__ = ("firsts", "kind", "kinds", "refs", "run", "shared")

    def __init__(
        self, run: BatchExecutor, kind: SizedKind, kinds: list[OpKind], refs: Any, firsts: Any, shared: SharedInputs
    ) -> None:
        self.run = run
        self.kind = kind
        self.kinds = kinds  # each call's own
        self.refs = refs  # of their inputs, a row for each call
        self.firsts = firsts  # of their results
        self.shared = shared  # inputs that all of them share

    def pieces(self, position: int, counts: Array, row: TensorType) -> Array:
        """An input of all calls, end to end: so many rows of each."""
        return self.run.values.gather_pieces(self.refs[:, position], counts, row.shape, row.dtype.numpy)

    def whole(self, call: int, position: int) -> Array:
        """An input of one call."""
        t = self.kinds[call].inputs[position].type
        return self.run.values.gather([int(self.refs[call, position])], t.shape, t.dtype.numpy)[0]

    def leave(self, result: int, counts: Array, array: Array) -> None:
        """The results of all calls, end to end: so many rows of each."""
        self.run.values.add_pieces(self.firsts + result if result else self.firsts, counts, array)

    def group(
        self,
        runner: Any,
        saved: Any,
        counts: Array,
        layouts: list[Layout | None],
        shared: tuple[bool, ...] | None = None,
    ) -> Group:
        """What backward needs. `counts`: rows of each call in every result, or in each of them."""
        n_inputs = len(layouts)
        made = Group(self.kind, runner, self.refs, shared or (False,) * n_inputs, self.firsts, saved)
        made.counts, made.layouts = counts, layouts
        return made


def no_function(*inputs: Any) -> NoReturn:
    """What a sized kind has in place of a function of one sample."""
    raise AssertionError("calls at several sizes run by their form")


def element_types(kind: CallKind) -> tuple[tuple[Input, ...], tuple[TensorType, ...]]:
    """Pieces of single elements."""
    return kind.inputs, tuple([TensorType((), t.dtype) for t in kind.results])


def numels(shapes: Sequence[tuple[int, ...]]) -> Array:
    """How many elements there are of each shape."""
    return np.array([math.prod(shape) for shape in shapes], np.int64)
