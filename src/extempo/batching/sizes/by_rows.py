"""Ops that treat every row by itself: a call on (n, ...) is as much as n calls on one row.

Products with weights, norms over features, everything elementwise: calls of any n, and so of all samples, are one batch
of their *row kind*, the op on one row, by the plans that batches of that kind have. Whether an op treats rows by
themselves follows from its batching rule: it does if one more leading dimension makes the very same op of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.cache import Cache
from ...core.op import Elementwise, Op
from ...core.storage import Array
from ...core.tensor import Tensor
from ...core.types import TensorType
from ...dispatch.graph_tracer import trace_graph
from ...func.levels import Level
from ...func.rules import run_batched
from ...ops.view import Permute
from ..gradients import Group, Layout
from ..kinds import Input
from ..native_runner import runner_of
from ..op_kinds import MISSING, OpKind, Slot, kind_of_types
from .forms import SizedBatch

_LARGE = 256  # elements, from which on an input that has no rows is not repeated for all rows of a call
_SOME = 7  # rows on which it is tried whether an op treats rows by themselves
_BY_ROWS: Cache[Any, bool] = Cache("ops by rows", 2_000)


class RowForm(NamedTuple):
    """A call is as much as `n` calls of a kind of one row."""

    kind: OpKind  # of a row
    columns: tuple[bool, ...]  # which inputs have rows; others are the same for all rows of a call
    n: int

    @property
    def family(self) -> Any:
        return self.kind, self.columns

    def large_columns(self) -> list[int]:
        """Inputs without rows that are too large to be repeated for each."""
        if issubclass(self.kind.op, Elementwise):
            return []
        pairs = enumerate(zip(self.columns, self.kind.inputs, strict=True))
        return [j for j, (rows, i) in pairs if not rows and isinstance(i.type, TensorType) and i.type.numel() >= _LARGE]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        row_kind, columns = batch.kind.family
        run, refs = batch.run, batch.refs
        counts = np.array([one.rows.n for one in batch.kinds], np.int64)
        total = int(counts.sum())
        which: list[bool] = []
        inputs: list[Any] = []
        layouts: list[Layout | None] = []
        tensors = iter(batch.shared.tensors)
        for j, has_rows in enumerate(columns):
            type_, layout = row_kind.inputs[j].type, None
            x: Any
            if batch.shared.which[j]:
                is_shared, x = True, next(tensors).tensor
            elif has_rows:
                is_shared, x, layout = False, batch.pieces(j, counts, type_), Layout(counts)
            else:
                is_shared, x = run.input_of(row_kind, j, refs[:, j], counts) if total else (False, 0)
                layout = Layout(counts, is_repeated=True) if isinstance(type_, TensorType) else None
            which.append(is_shared)
            inputs.append(x)
            layouts.append(layout)
        if not total:
            for i, t in enumerate(batch.kind.results):
                batch.leave(i, counts, np.empty((0, *t.shape), t.dtype.numpy))
            return batch.group(NothingToRun(row_kind.captured), None, counts, layouts)
        runner = runner_of(row_kind, tuple(which))
        arrays, saved = runner.forward(inputs, total)
        for i, array in enumerate(arrays):
            batch.leave(i, counts, array)
        return batch.group(runner, saved, counts, layouts, tuple(which))


class NothingToRun:
    """A Runner of no rows: weights get gradients that are zero."""

    def __init__(self, captured: Sequence[Tensor]) -> None:
        self._captured = [t for t in captured if t.requires_grad]

    def forward(self, inputs: Sequence[Any], n: int) -> tuple[list[Array], Any]:
        return [], None

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        return [], []

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return [(t, np.zeros(t._type.shape, t._type.dtype.numpy)) for t in self._captured]


def row_form(kind: OpKind) -> RowForm | None:
    """A call as calls of one row each; None if it is not."""
    if kind.rows is MISSING:
        kind.rows = _row_form(kind)
    form: RowForm | None = kind.rows
    return form


def _row_form(kind: OpKind) -> RowForm | None:
    if kind.alone or kind.stacks or any(not t.shape for t in kind.results):
        return None
    n = kind.results[0].shape[0]
    if any(t.shape[0] != n for t in kind.results):
        return None
    if issubclass(kind.op, Elementwise):
        return _elementwise(kind, n)
    attrs = attrs_of_one_row(kind.op, kind.attrs, n)
    if attrs is None:
        return None
    operands = [i for i, slot in enumerate(kind.slots) if slot is None]
    sized = [i for i in operands if _has_rows(kind.types[i], n)]
    for which in dict.fromkeys([tuple(sized), *[(i,) for i in sized]]):
        if which:
            types = tuple([_row_of(t) if i in which else t for i, t in enumerate(kind.types)])
            if is_by_rows(kind.op, types, attrs, kind.slots, which):
                row_kind = kind_of_types(kind.op, types, attrs, kind.slots)
                return RowForm(row_kind, tuple([i in which for i in operands]), n)
    return None


def _elementwise(kind: OpKind, n: int) -> RowForm | None:
    """Elements by themselves; where all inputs have the shape of the result, or are one element, each is a row."""
    shape = kind.results[0].shape
    operands = [i for i, slot in enumerate(kind.slots) if slot is None]
    full = [_is_tensor(t) and t.type.shape == shape and slot is None for t, slot in _inputs(kind)]
    if all(
        is_full or not _is_tensor(t) or not t.type.shape for is_full, (t, _) in zip(full, _inputs(kind), strict=True)
    ):
        types = [
            Input(TensorType((), t.type.dtype), t.tracked) if is_full else t
            for is_full, (t, _) in zip(full, _inputs(kind), strict=True)
        ]
        columns = tuple([full[i] for i in operands])
        return RowForm(kind_of_types(kind.op, tuple(types), kind.attrs, kind.slots), columns, math.prod(shape))
    types, columns = [], ()
    for t, slot in zip(kind.types, kind.slots, strict=True):
        is_long = _is_tensor(t) and len(t.type.shape) == len(shape)
        if slot is not None and is_long:
            return None  # a weight has rows of its own
        types.append(_row_of(t) if is_long else t)
        if slot is None:
            columns = (*columns, is_long and t.type.shape[0] == n)
    if True not in columns:
        return None
    return RowForm(kind_of_types(kind.op, tuple(types), kind.attrs, kind.slots), columns, n)


def _inputs(kind: OpKind) -> list[tuple[Input, Slot]]:
    return list(zip(kind.types, kind.slots, strict=True))


def _is_tensor(t: Input) -> bool:
    return isinstance(t.type, TensorType)


def _has_rows(t: Input, n: int) -> bool:
    return isinstance(t.type, TensorType) and bool(t.type.shape) and t.type.shape[0] == n


def _row_of(t: Input) -> Input:
    return Input(TensorType(t.type.shape[1:], t.type.dtype), t.tracked)


def attrs_of_one_row(op: type[Op], attrs: dict[str, Any], n: int) -> dict[str, Any] | None:
    """The attributes for one row; None if they speak of the rows themselves."""
    made: dict[str, Any] = {}
    for name, value in attrs.items():
        if name == "dim" and type(value) is int:
            if value < 1:
                return None
            value -= 1
        elif op is Permute:
            if not value or value[0] != 0:
                return None
            value = tuple([d - 1 for d in value[1:]])
        elif name in ("dim", "dims") and isinstance(value, tuple):
            if not value or min(value) < 1:
                return None
            value = tuple([d - 1 for d in value])
        elif name == "spec":
            if not value or value[0] != ":":
                return None
            value = value[1:]
        elif name == "shape":
            if not value or value[0] != n:
                return None
            value = value[1:]
        made[name] = value
    return made


def attrs_of_rows(op: type[Op], row_attrs: dict[str, Any], n: int) -> dict[str, Any]:
    """The inverse."""
    made: dict[str, Any] = {}
    for name, value in row_attrs.items():
        if name == "dim" and type(value) is int:
            value += 1
        elif op is Permute:
            value = (0, *[d + 1 for d in value])
        elif name in ("dim", "dims") and isinstance(value, tuple):
            value = tuple([d + 1 for d in value])
        elif name == "spec":
            value = (":", *value)
        elif name == "shape":
            value = (n, *value)
        made[name] = value
    return made


def is_by_rows(
    op: type[Op], types: tuple[Input, ...], attrs: dict[str, Any], slots: tuple[Slot, ...], which: tuple[int, ...]
) -> bool:
    """Whether the op on many rows is nothing but the op with one more leading dimension."""
    numbers = tuple([None if slot is None or isinstance(slot[0], Tensor) else (slot[0],) for slot in slots])
    try:
        key = (op, tuple([t.type for t in types]), numbers, which, *attrs.items())
        found = _BY_ROWS.get(key)
    except TypeError:  # an attribute that cannot be hashed
        return False
    if found is None:
        try:
            found = _BY_ROWS.put(key, _tried(op, types, attrs, numbers, which))
        except Exception:  # whatever an op may have against such sizes: then its rows do not go together
            found = _BY_ROWS.put(key, False)
    return found


def _tried(
    op: type[Op], types: tuple[Input, ...], attrs: dict[str, Any], numbers: tuple[Any, ...], which: tuple[int, ...]
) -> bool:
    result = op.signature(tuple([t.type for t in types]), attrs).type
    physical = [
        TensorType((_SOME, *t.type.shape), t.type.dtype) if i in which else t.type
        for i, t in enumerate(types)
        if isinstance(t.type, TensorType)
    ]
    leaves: list[Any] = []

    def run(*tensors: Tensor) -> Any:
        leaves.extend([t._node for t in tensors])
        left = iter(tensors)
        level = Level(_SOME, "different")
        inputs: list[Any] = []
        for i, (t, number) in enumerate(zip(types, numbers, strict=True)):
            if isinstance(t.type, TensorType):
                x = next(left)
                inputs.append(level.wrap(x) if i in which else x)
            else:
                inputs.append(number[0] if number is not None else t.type(1))
        batched = [x._source if i in which else None for i, x in enumerate(inputs)]
        return run_batched(level, op, tuple(inputs), attrs, batched, tuple([t.type for t in types]), result)

    graph, _, made = trace_graph(run, physical)
    node = graph.outputs[0]
    if isinstance(made, tuple):
        if not all(out.op.name == "pick" and out.inputs[0] is node.inputs[0] for out in graph.outputs):
            return False
        node = node.inputs[0]
    read = [x for x in node.inputs if x in leaves]
    return node.op is op and node.attrs == attrs_of_rows(op, attrs, _SOME) and read == leaves
