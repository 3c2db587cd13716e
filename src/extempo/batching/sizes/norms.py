"""Normalization over dimensions of a call's own size: instance and group norms of own sequences and images.

A call is rows that are normalized, each with its mean and variance, by the sums that ragged tensors have. Weights, of
which each belongs to some elements of every call, are spread to all elements.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.tensor import Tensor, from_array
from ...core.types import TensorType, float32, float64
from ...ops.segments import segment_spread, segment_sum
from ...ragged_tensors.rows import Rows
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .forms import SizedBatch
from .tape import TapeRunner, elements, on_tape, recorded


class NormForm(NamedTuple):
    """A call that is normalized over its last dimensions."""

    dtype: Any
    inputs: tuple[Any, ...]  # of the operands: types, x's without a shape, and which of them want a gradient
    slots: tuple[Any, ...]  # of x, weight and bias: ids, None for what is left out and -1 for operands
    eps: float
    centred: bool
    shape: tuple[int, ...]
    n_rows: int

    @property
    def family(self) -> Any:
        return self[:5]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        dtype, inputs, _, eps, centred = batch.kind.family
        forms = [one.form for one in batch.kinds]
        counts = np.array([math.prod(form.shape) for form in forms], np.int64)
        n_rows = np.array([form.n_rows for form in forms], np.int64)
        wants_grad = any(batch.kind.tracked)
        x = on_tape(batch.pieces(0, counts, TensorType((), dtype)), inputs[0][1] and wants_grad)
        weights = [
            on_tape(batch.pieces(j, np.ones_like(counts), row), t and wants_grad)
            for j, (row, t) in enumerate(inputs)
            if j
        ]  # those of each call, one after the other
        operands = iter((x, *weights))
        given = [next(operands) if slot is None else slot[0] for slot in batch.kinds[0].slots[:3]]
        rows = Rows.of_lengths(np.repeat(counts // n_rows, n_rows))

        def body() -> tuple[Tensor, ...]:
            _, weight, bias = given
            _, of_weight, of_bias = (t.type for t in batch.kinds[0].types[:3])
            mean = _mean(x, rows)
            mean = mean if centred else mean * 0.0
            rest = x - segment_spread(mean, *rows.segments)
            variance = _mean(rest * rest, rows)
            y = rest * segment_spread((variance + eps).rsqrt(), *rows.segments)
            y = y if weight is None else y * _spread(weight, of_weight.shape, forms)
            return (y if bias is None else y + _spread(bias, of_bias.shape, forms)), mean, variance

        made = recorded(wants_grad, body)
        of_results = np.array([counts, n_rows, n_rows])
        for i, y in enumerate(made):
            batch.leave(i, of_results[i], elements(y, batch.kind.results[i].dtype))
        layouts: list[Layout | None] = [Layout(counts)]
        layouts += [Layout(np.full(len(counts), row.numel())) for row, _ in inputs[1:]]
        saved = ([[y] for y in made], [[t] if t.requires_grad else None for t in (x, *weights)])
        return batch.group(TapeRunner(batch.kind.captured), saved, of_results, layouts)


def _mean(x: Tensor, rows: Rows) -> Tensor:
    return segment_sum(x, *rows.segments) / rows.lengths_tensor.to(x.dtype)


def _spread(weight: Tensor, shape: tuple[int, ...], forms: list[NormForm]) -> Tensor:
    """For each element of all calls the weight of this shape that it broadcasts with.

    `weight`: one for all calls, or one for each, one after the other.
    """
    numbers = np.arange(math.prod(shape)).reshape(shape)
    step = numbers.size if weight.numel() > numbers.size else 0
    places = [np.broadcast_to(numbers + step * i, form.shape).reshape(-1) for i, form in enumerate(forms)]
    return weight.reshape(-1).index_select(0, from_array(np.concatenate(places)))


def norm_form(kind: OpKind) -> NormForm | None:
    x, dims, eps = kind.types[0].type, kind.attrs["dims"], kind.slots[3]
    n_dims = len(x.shape)
    # Dimensions of size 1 that are not among them, before or behind, are in the way of nothing.
    first = min(dims, default=n_dims)
    is_last = all(d in dims or x.shape[d] == 1 for d in range(first, n_dims))
    if kind.slots[0] is not None or eps is None or not is_last or x.dtype not in (float32, float64) or not x.numel():
        return None
    n_rows = math.prod(x.shape[:first])
    inputs = tuple([(x.dtype if j == 0 else i.type, i.tracked) for j, i in enumerate(kind.inputs)])
    slots = tuple([-1 if s is None else None if s[0] is None else id(s[0]) for s in kind.slots[:3]])
    return NormForm(x.dtype, inputs, slots, eps[0], kind.attrs["centred"], x.shape, n_rows)
