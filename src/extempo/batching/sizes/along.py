"""Ops along dimensions whose size is a call's own: sums, softmaxes, maxima, scans and picks over rows of any length.

A call is `outer` rows of `length` elements, each of the shape `inner`. The rows of all calls lie end to end, and the op
runs by what it states for such rows as its `ragged` aspect: the rule that ragged tensors have. Dimensions that follow
one another and are reduced together count as one. The inputs of gather and its like have lengths of their own.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.op import Op
from ...core.storage import Array
from ...core.tensor import Tensor
from ...core.types import TensorType
from ...ragged_tensors.rows import Rows
from ...ragged_tensors.rules import named_rule
from ...ragged_tensors.tensor import RaggedTensor
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .forms import SizedBatch, numels
from .tape import TapeRunner, elements, on_tape, recorded

_RUNNER = TapeRunner()
# Rules by name that take ragged tensors (rows, *, ...) along their ragged dimension.
_RULES = frozenset(
    (
        *("picking.gather", "picking.scatter", "picking.roll", "rowwise.looped", "rowwise.topk"),
        *("rowwise.padded_with_ones", "rowwise.padded_with_zeros"),
    )
)
_DIMS = ("dim", "dims")  # names of the attribute that says along which


class AlongForm(NamedTuple):
    """A call along dimensions that are next to each other."""

    op: type[Op]
    attrs: tuple[tuple[str, Any], ...]  # but for the dimension
    inputs: tuple[Any, ...]  # dtypes, and which of them want a gradient; a number as itself
    inner: tuple[int, ...]
    outer: int
    lengths: tuple[int, ...]  # of the tensors among the inputs

    @property
    def family(self) -> Any:
        return self[:4]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        op, others, inputs, inner = batch.kind.family
        outer = np.array([one.form.outer for one in batch.kinds], np.int64)
        lengths = np.array([one.form.lengths for one in batch.kinds], np.int64)
        tensors = [(dtype, tracked) for dtype, tracked in inputs if tracked is not None]
        wants_grad, width = any(batch.kind.tracked), math.prod(inner)
        counts = [outer * lengths[:, j] for j in range(len(tensors))]
        given = [
            on_tape(batch.pieces(j, n, TensorType(inner, dtype)), tracked and wants_grad)
            for j, (n, (dtype, tracked)) in enumerate(zip(counts, tensors, strict=True))
        ]
        left = iter(given)
        filled = [next(left) if tracked is not None else value for value, tracked in inputs]
        results = recorded(wants_grad, lambda: of_rows(op, dict(others), filled, outer, lengths))
        of_results = []
        for i, (y, t) in enumerate(zip(results, batch.kind.results, strict=True)):
            of_results.append(numels([one.results[i].shape for one in batch.kinds]))
            batch.leave(i, of_results[i], elements(y, t.dtype))
        layouts: list[Layout | None] = [Layout(n * width) for n in counts]
        saved = ([[y] for y in results], [[x] if x.requires_grad else None for x in given])
        return batch.group(_RUNNER, saved, np.array(of_results), layouts)


def of_rows(op: type[Op], attrs: dict[str, Any], inputs: list[Any], outer: Array, lengths: Array) -> tuple[Tensor, ...]:
    """The results of an op on rows that lie end to end, by its rule for ragged tensors.

    `lengths`: of the rows of each call, a column for each tensor; a call has `outer` of them.
    """
    if callable(op.ragged):
        rows = Rows.of_lengths(np.repeat(lengths[:, 0], outer))
        made = op.ragged(rows, *inputs, **{name: value for name, value in attrs.items() if name != "keepdim"})
    else:
        columns = iter([Rows.of_lengths(np.repeat(column, outer)) for column in lengths.T])
        ragged = tuple([RaggedTensor(x, next(columns)) if isinstance(x, Tensor) else x for x in inputs])
        # A reduction names several dimensions, gather and its like one.
        along: dict[str, Any] = {"dims": (1,)} if op.name == "roll" else {"dim": (1,) if "keepdim" in attrs else 1}
        made = named_rule(op.ragged)(
            op, ragged, {**attrs, **along, **({"keepdim": False} if "keepdim" in attrs else {})}
        )
    results = made if isinstance(made, tuple) else (made,)
    return tuple([y._flat if isinstance(y, RaggedTensor) else y for y in results])


def along_form(kind: OpKind) -> AlongForm | None:
    """A call as one along a dimension, of rows of any length but 0; None if it is not."""
    dims = dims_of(kind)
    if dims is None or list(dims) != list(range(dims[0], dims[0] + len(dims))):
        return None
    shapes = [i.type.shape for i in kind.inputs]
    first, behind = dims[0], dims[-1] + 1
    outer, inner = shapes[0][:first], shapes[0][behind:]
    if any(len(s) != len(shapes[0]) or s[:first] != outer or s[behind:] != inner for s in shapes):
        return None
    lengths = tuple([math.prod(s[first:behind]) for s in shapes])
    if (len(set(lengths)) > 1 and callable(kind.op.ragged)) or not lengths[0]:
        return None  # of no elements some ops make nothing, and others an error
    return AlongForm(kind.op, others_of(kind), inputs_of(kind), inner, math.prod(outer), lengths)


def dims_of(kind: OpKind) -> tuple[int, ...] | None:
    """The dimensions that an op goes along, if it has a rule for rows."""
    op, dims = kind.op, kind.attrs.get("dim", kind.attrs.get("dims"))
    dims = (dims,) if type(dims) is int else dims
    has_rule = op.ragged in _RULES if isinstance(op.ragged, str) else callable(op.ragged)
    if not has_rule or not isinstance(dims, tuple) or not dims or kind.captured or not kind.inputs:
        return None
    are_tensors = all(isinstance(i.type, TensorType) for i in kind.inputs)
    return dims if are_tensors and kind.inputs[0].type.shape else None


def others_of(kind: OpKind) -> tuple[tuple[str, Any], ...]:
    """The attributes but for the dimensions."""
    return tuple([(name, value) for name, value in kind.attrs.items() if name not in _DIMS])


def inputs_of(kind: OpKind) -> tuple[Any, ...]:
    """Of each input its dtype and whether it wants a gradient; (number, None) for one that is part of the kind."""
    operands = iter(kind.inputs)
    made: list[Any] = []
    for slot in kind.slots:
        if slot is None:
            i = next(operands)
            made.append((i.type.dtype, i.tracked))
        else:
            made.append((slot[0], None))
    return tuple(made)
