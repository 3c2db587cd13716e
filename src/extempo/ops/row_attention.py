"""Attention of rows that stand end to end in one tensor (ragged): each row of queries attends to its own keys.

Tensors are (..., elements, features), with the same leading dimensions (heads). Row i of the queries is the elements
from query_offsets[i] to query_offsets[i + 1], and so on for keys and values. Offsets are inputs, never
attributes: a call with other lengths is the same call.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .. import ops
from ..core.context import is_grad_enabled
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Decomposed, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import InputType, TensorType
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError
from .attention import ScaledDotProductAttention
from .attention_gradient import AttentionGradient

__all__: list[str] = []

_BATCH = Refuse("looped over samples: the rows of each have lengths of their own")


def _slices(offsets: Array, n_elements: int) -> list[slice]:
    ends = offsets.tolist()
    if not ends or ends[0] != 0 or ends[-1] != n_elements or any(a > b for a, b in pairwise(ends)):
        raise ShapeError(f"row_attention: offsets must rise from 0 to the {n_elements} elements, got {ends}")
    return [slice(*pair) for pair in pairwise(ends)]


def _pairs(query: Array, key: Array, offsets: Sequence[Array]) -> Iterator[tuple[slice, slice]]:
    """The elements of each row of queries and of keys."""
    return zip(_slices(offsets[0], query.shape[-2]), _slices(offsets[1], key.shape[-2]), strict=True)


def _part(x: Any, row: slice) -> Any:
    return x[..., row, :]


def _row_and_place(offsets: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Of n elements in rows, the row of each and its place there."""
    places = ops.arange(n)
    row = ops.le(offsets[1:].unsqueeze(0), places.unsqueeze(1)).sum(1)
    return row, places - offsets.index_select(0, row)


class RowAttention(Op):
    """softmax(query @ key.T * scale) @ value of each row. A row of no keys gives zeros."""

    family = "contraction"
    lower = Routine("row_attention")
    batch = _BATCH
    ragged = Refuse("it gets rows as one tensor and their offsets")
    saves = *("query key value query_offsets key_offsets",) * 3, "", "", ""

    @staticmethod
    def infer(
        query: TensorType,
        key: TensorType,
        value: TensorType,
        query_offsets: TensorType,
        key_offsets: TensorType,
        scale: InputType,
        *,
        is_causal: bool,
    ) -> TensorType:
        shapes = f"query {query.shape}, key {key.shape}, value {value.shape}"
        if not query.dtype is key.dtype is value.dtype or not query.dtype.is_floating_point:
            raise DtypeError(
                f"row_attention: expected one floating dtype, got {query.dtype}, {key.dtype}, {value.dtype}; "
                "convert with .to(...)"
            )
        if query.shape[-1] != key.shape[-1]:
            raise ShapeError(f"row_attention: query and key must have as many features, got {shapes}")
        if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
            raise ShapeError(f"row_attention: expected as many heads of all, got {shapes}")
        if key.shape[-2] != value.shape[-2] or query_offsets.shape != key_offsets.shape:
            raise ShapeError(f"row_attention: expected as many keys as values and as many rows of all, got {shapes}")
        return TensorType((*query.shape[:-1], value.shape[-1]), query.dtype)

    @staticmethod
    def numpy(query: Array, key: Array, value: Array, *rest: Any, is_causal: bool) -> Array:
        *offsets, scale = rest
        out = np.empty((*query.shape[:-1], value.shape[-1]), query.dtype)
        for q, k in _pairs(query, key, offsets):
            rows = _part(query, q), _part(key, k), _part(value, k)
            out[..., q, :] = ScaledDotProductAttention.numpy(*rows, None, scale, is_causal=is_causal)
        return out

    @staticmethod
    def vjp(
        g: Tensor,
        y: Any,
        query: Any,
        key: Any,
        value: Any,
        query_offsets: Any,
        key_offsets: Any,
        scale: float,
        *,
        is_causal: bool,
    ) -> tuple[Any, ...]:
        offsets, attrs = (query_offsets, key_offsets), {"is_causal": is_causal}

        @functools.cache
        def gradients() -> Any:
            if is_grad_enabled():  # by ops that can be differentiated themselves
                return _gradients_by_row(g, query, key, value, offsets, scale, attrs)
            return apply(RowAttentionGradient, (g, query, key, value, *offsets, scale), attrs)

        return lambda: gradients()[0], lambda: gradients()[1], lambda: gradients()[2], None, None, None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for lead, queries, keys, is_causal in _cases():
            yield Sample(*_drawn(rng, lead, queries, keys), 0.5, is_causal=is_causal)

    @Decomposed
    def onnx(
        query: Tensor, key: Tensor, value: Tensor, query_offsets: Tensor, key_offsets: Tensor, scale: Any, *,
        is_causal: bool,
    ) -> Tensor:  # fmt: skip
        """By one mask over all queries and keys: ONNX has no rows of different lengths."""
        query_row, query_place = _row_and_place(query_offsets, query._type.shape[-2])
        key_row, key_place = _row_and_place(key_offsets, key._type.shape[-2])
        allowed = ops.eq(query_row.unsqueeze(1), key_row)
        if is_causal:
            allowed = ops.logical_and(allowed, ops.ge(query_place.unsqueeze(1), key_place))
        attrs = {"is_causal": False}
        return apply(ScaledDotProductAttention, (query, key, value, allowed, scale), attrs)


class RowAttentionGradient(Op):
    """The gradients of RowAttention's query, key and value, given that of its result. The weights are not kept."""

    family = "contraction"
    lower = Routine("row_attention_gradient")
    batch = _BATCH
    ragged = IN_GRADIENTS_ONLY
    saves = ("",) * 7
    vjp = Refuse("a gradient that is itself differentiated is made of ops that can be")
    infer = staticmethod(lambda g, query, key, value, *rest, is_causal: (query, key, value))

    @staticmethod
    def numpy(g: Array, query: Array, key: Array, value: Array, *rest: Any, is_causal: bool) -> tuple[Array, ...]:
        *offsets, scale = rest
        into_query, into_key, into_value = (np.zeros(x.shape, x.dtype) for x in (query, key, value))
        for q, k in _pairs(query, key, offsets):
            if q.start == q.stop or k.start == k.stop:
                continue  # nothing attends, or to nothing
            rows = _part(g, q), _part(query, q), _part(key, k), _part(value, k)
            found = AttentionGradient.numpy(*rows, scale, is_causal=is_causal)
            into_query[..., q, :], into_key[..., k, :], into_value[..., k, :] = found
        return into_query, into_key, into_value

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for lead, queries, keys, is_causal in _cases():
            query, key, value, *offsets = _drawn(rng, lead, queries, keys)
            g = rng.normal(size=(*query.shape[:-1], value.shape[-1]))
            yield Sample(g, query, key, value, *offsets, 0.5, is_causal=is_causal)

    onnx = GRADIENTS_ONLY


def _gradients_by_row(
    g: Tensor, query: Any, key: Any, value: Any, offsets: tuple[Any, Any], scale: float, attrs: dict[str, Any]
) -> list[Tensor]:
    found = []
    for q, k in _pairs(query, key, (offsets[0].numpy(), offsets[1].numpy())):
        rows = _part(g, q), _part(query, q), _part(key, k), _part(value, k)
        found.append(apply(AttentionGradient, (*rows, scale), attrs))
    if not found:
        return [ops.zeros_like(x) for x in (query, key, value)]
    return [ops.cat(list(parts), -2) for parts in zip(*found, strict=True)]


def _cases() -> Iterator[tuple[tuple[int, ...], list[int], list[int], bool]]:
    """Leading dimensions, lengths of queries and of keys, causal or not."""
    yield (), [2, 3], [4, 1], False
    yield (2,), [3, 0, 2], [3, 0, 2], True
    yield (2, 1), [1, 2, 0], [0, 3, 2], False
    yield (2,), [13, 7], [20, 5], True
    yield (), [], [], False


def _drawn(rng: Rng, lead: tuple[int, ...], queries: list[int], keys: list[int]) -> list[Array]:
    n_queries, n_keys = sum(queries), sum(keys)
    shapes = (n_queries, 4), (n_keys, 4), (n_keys, 3)
    offsets = [np.cumsum([0, *lengths]) for lengths in (queries, keys)]
    return [*(rng.normal(size=(*lead, *shape)) for shape in shapes), *offsets]
