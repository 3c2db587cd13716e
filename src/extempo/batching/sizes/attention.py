"""Attention with own lengths: every head of every call is one row of queries that attends to a row of keys.

That is what `row_attention` computes for ragged tensors, so the calls of all samples are one op, with no padding.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.types import TensorType
from ...dispatch.dispatcher import apply
from ...ops.row_attention import RowAttention
from ...ragged_tensors.rows import Rows
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .forms import SizedBatch
from .tape import TapeRunner, elements, on_tape, recorded

_RUNNER = TapeRunner()


class AttentionForm(NamedTuple):
    """Queries, keys and values (..., length, features) with the same leading dimensions, and no mask."""

    dtype: Any
    tracked: tuple[bool, ...]
    widths: tuple[int, ...]  # features of queries, keys and values
    scale: float
    is_causal: bool
    n_heads: int
    n_queries: int
    n_keys: int

    @property
    def family(self) -> Any:
        return self[:5]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        dtype, tracked, widths, scale, is_causal = batch.kind.family
        heads, queries, keys = (
            np.array(sizes, np.int64)
            for sizes in zip(*[one.form[5:] for one in batch.kinds], strict=True)
        )  # fmt: skip
        wants_grad = any(batch.kind.tracked)
        counts = [heads * queries, heads * keys, heads * keys]
        given = [
            on_tape(batch.pieces(j, n, TensorType((width,), dtype)), t and wants_grad)
            for j, (n, width, t) in enumerate(zip(counts, widths, tracked, strict=True))
        ]
        offsets = [Rows.of_lengths(np.repeat(n, heads)).offsets_tensor for n in (queries, keys)]
        made = recorded(wants_grad, lambda: apply(RowAttention, (*given, *offsets, scale), {"is_causal": is_causal}))
        of_results = counts[0] * widths[2]
        batch.leave(0, of_results, elements(made, dtype))
        layouts: list[Layout | None] = [Layout(n * width) for n, width in zip(counts, widths, strict=True)]
        saved = ([[made]], [[x] if x.requires_grad else None for x in given])
        return batch.group(_RUNNER, saved, of_results, layouts)


def attention_form(kind: OpKind) -> AttentionForm | None:
    if kind.op.name != "scaled_dot_product_attention" or len(kind.inputs) != 3 or kind.slots[3] != (None,):
        return None
    types = [i.type for i in kind.inputs]
    lead = types[0].shape[:-2]
    scale = kind.slots[4]
    if any(t.shape[:-2] != lead for t in types) or scale is None or not types[1].shape[-2]:
        return None
    heads, widths = math.prod(lead), tuple([t.shape[-1] for t in types])
    tracked = tuple([i.tracked for i in kind.inputs])
    sizes = heads, types[0].shape[-2], types[1].shape[-2]
    return AttentionForm(types[0].dtype, tracked, widths, scale[0], kind.attrs["is_causal"], *sizes)
