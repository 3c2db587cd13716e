"""Attention with own lengths: every head of every call is one row of queries that attends to a row of keys.

That is what `row_attention` computes for ragged tensors, so the calls of all samples are one op, with no padding.
Masks are looked at when the batch runs: causal ones are left out and said to be, with others calls run one by one.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...core.storage import Array
from ...core.types import TensorType, bool_
from ...dispatch.dispatcher import apply
from ...ops.row_attention import RowAttention
from ...ragged_tensors.rows import Rows
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .each import run_each
from .forms import SizedBatch, numels
from .tape import TapeRunner, elements, on_tape, recorded

_RUNNER = TapeRunner()


class AttentionForm(NamedTuple):
    """Queries, keys and values (..., length, features) with the same leading dimensions."""

    dtype: Any
    tracked: tuple[bool, ...]
    widths: tuple[int, ...]  # features of queries, keys and values
    scale: float
    is_causal: bool
    mask: Any  # the dtype of one that calls are given
    n_heads: int
    n_queries: int
    n_keys: int

    @property
    def family(self) -> Any:
        return self[:6]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        dtype, tracked, widths, scale, is_causal, mask = batch.kind.family
        if mask is not None:
            is_causal = masks_are_causal(batch, 3)
            if not is_causal:
                return run_each(batch)
        heads, queries, keys = (
            np.array(sizes, np.int64)
            for sizes in zip(*[one.form[6:] for one in batch.kinds], strict=True)
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
        nothing = [] if mask is None else [None]
        saved = ([[made]], [*[[x] if x.requires_grad else None for x in given], *nothing])
        return batch.group(_RUNNER, saved, of_results, [*layouts, *nothing])


def masks_are_causal(batch: SizedBatch, position: int, hides: bool = False) -> bool:
    """Whether the masks of all calls, (..., queries, keys), leave out what comes later, and nothing else.

    `hides`: bool masks are True for what is left out, as layers have it, rather than for what is not.
    """
    types = [one.inputs[position].type for one in batch.kinds]
    later = np.concatenate([_later(*t.shape[-2:]) for t in types])
    given = batch.pieces(position, numels([t.shape for t in types]), TensorType((), types[0].dtype))
    if types[0].dtype is bool_:
        return bool((given == (later if hides else ~later)).all())
    return bool((given == np.where(later, -np.inf, 0.0)).all())


@functools.lru_cache(256)
def _later(n_queries: int, n_keys: int) -> Array:
    made: Array = ~np.tri(n_queries, n_keys, dtype=bool).reshape(-1)
    return made


def attention_form(kind: OpKind) -> AttentionForm | None:
    if kind.op.name != "scaled_dot_product_attention" or len(kind.inputs) not in (3, 4):
        return None
    mask = None
    if len(kind.inputs) == 4:
        given = kind.inputs[3]
        if kind.slots[3] is not None or given.tracked or kind.attrs["is_causal"] or not _is_one_mask(given.type):
            return None
        mask = given.type.dtype
    elif kind.slots[3] != (None,):
        return None
    types = [i.type for i in kind.inputs[:3]]
    lead = types[0].shape[:-2]
    scale = kind.slots[4]
    if any(t.shape[:-2] != lead for t in types) or scale is None or not types[1].shape[-2]:
        return None
    heads, widths = math.prod(lead), tuple([t.shape[-1] for t in types])
    tracked = tuple([i.tracked for i in kind.inputs[:3]])
    sizes = heads, types[0].shape[-2], types[1].shape[-2]
    return AttentionForm(types[0].dtype, tracked, widths, scale[0], kind.attrs["is_causal"], mask, *sizes)


def _is_one_mask(t: Any) -> bool:
    """Whether it is one for all heads."""
    return isinstance(t, TensorType) and len(t.shape) >= 2 and math.prod(t.shape[:-2]) == 1
