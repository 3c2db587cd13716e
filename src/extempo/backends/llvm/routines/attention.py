"""Routines of attention without a mask, or with the causal one: softmax(q @ k.T * scale) @ v, and its gradients.

A few rows of q go through all keys at once; their scores become weights in scratch memory and are multiplied with v. No
matrix of all weights ever exists, and nothing is kept for backward, which computes the weights again. Where the causal
mask hides keys from all of these rows, those keys are not touched.

Backward takes rows in blocks, so that sums over rows, which go into k and v, are long enough to pay. Threads share
heads, and a result never depends on how.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....core.types import InputType, TensorType, broadcast_shapes, count
from .attention_code import BLOCK_TILES, NUMBERS, PLACES, write_backward, write_forward
from .gemm import Gemm, gemm_of
from .gemm_plan import CHUNK_PRODUCTS, MAX_CHUNKS
from .gemm_tiles import MAX_ROWS
from .products import usable
from .routine import FLOATS, Attrs, Bound, Inputs, build, rounded_up, routine

STRIP_SLIVERS = 3  # a strip that is read along rows and along columns is a multiple of a sliver and of MAX_ROWS wide


class Sizes(NamedTuple):
    """Of the operands; `lead` is what their leading dimensions broadcast to."""

    lead: tuple[int, ...]
    n_queries: int
    n_keys: int
    n_features: int
    n_values: int


def _sizes(query: InputType, key: InputType, value: InputType, *others: InputType) -> Sizes | None:
    """The sizes; None if there is no native code for such operands."""
    given = [t for t in (query, key, value, *others) if isinstance(t, TensorType)]
    lead = broadcast_shapes(*(t.shape[:-2] for t in given))
    sizes = Sizes(lead, given[0].shape[-2], given[1].shape[-2], given[0].shape[-1], given[2].shape[-1])
    known = given[0].dtype._name in FLOATS and all(t.dtype is given[0].dtype for t in given)
    return sizes if known and usable() and 0 not in (*lead, *sizes[1:]) else None


def _places(t: TensorType, n_lead: int, at: int, nothing: int) -> tuple[list[int], tuple[int, int]]:
    """Where the strides of an operand stand in meta, those of leading dimensions and of rows and columns.

    They begin `at`; `nothing` is where a zero stands, for dimensions that are not there or are broadcast.
    """
    own = [at + d if t.shape[d] > 1 else nothing for d in range(t.ndim - 2)]
    return [nothing] * (n_lead - len(own)) + own, (at + t.ndim - 2, at + t.ndim - 1)


def forward_parts(s: Sizes, columns: int) -> dict[str, int]:
    """The scratch memory of forward: elements in each place."""
    width = rounded_up(s.n_keys, columns)
    return {
        "keys_at": width * s.n_features,
        "rows_at": rounded_up(s.n_values, columns) * s.n_keys,
        "strip_at": width * MAX_ROWS,
    }


def backward_parts(s: Sizes, columns: int) -> dict[str, int]:
    """The scratch memory of backward: elements in each place."""
    width, n_rows = rounded_up(s.n_keys, STRIP_SLIVERS * columns), BLOCK_TILES * MAX_ROWS
    features_width, values_width = rounded_up(s.n_features, columns), rounded_up(s.n_values, columns)
    return {
        "keys_at": rounded_up(s.n_keys, columns) * s.n_features,
        "values_at": rounded_up(s.n_keys, columns) * s.n_values,
        "rows_at": features_width * s.n_keys,
        "strip_at": width * n_rows,
        "scores_at": width * n_rows,
        "query_rows_at": features_width * n_rows,
        "gradient_rows_at": values_width * n_rows,
        "into_keys_at": rounded_up(s.n_keys, MAX_ROWS) * features_width,
        "into_values_at": rounded_up(s.n_keys, MAX_ROWS) * values_width,
    }


def numbers_of(
    s: Sizes, is_causal: bool, gemm: Gemm, parts: dict[str, int], strip_width: int, n_products: int
) -> dict[str, int]:
    """NUMBERS, but for those that say where strides are. `n_products`: multiplications of one head."""
    t, n_heads = gemm.t, count(s.lead)
    n_tiles = -(-s.n_queries // MAX_ROWS)
    tile_rows, n_taller = divmod(s.n_queries, n_tiles)
    n_chunks = max(1, min(n_heads, MAX_CHUNKS, n_heads * n_products // CHUNK_PRODUCTS))
    chunk_heads = -(-n_heads // n_chunks)
    numbers = dict(zip(s._fields[1:], s[1:], strict=True)) | {
        "is_causal": int(is_causal),
        "n_tiles": n_tiles,
        "tile_rows": tile_rows,
        "n_taller": n_taller,
        "panel": gemm.panel(tile_rows),
        "taller_panel": gemm.panel(tile_rows + 1) if n_taller else 0,
        "high_panel": gemm.panel(MAX_ROWS),
        "n_lead": len(s.lead),
        "n_heads": n_heads,
        "n_chunks": -(-n_heads // chunk_heads),
        "chunk_heads": chunk_heads,
        "strip_row": strip_width * t.size,
        "features_width": rounded_up(s.n_features, t.columns),
        "values_width": rounded_up(s.n_values, t.columns),
    }
    end = 0
    for place in PLACES:
        numbers[place] = end
        end += rounded_up(parts.get(place, 0) * t.size, 64)
    return numbers | {"scratch": end}


def meta_of(
    numbers: dict[str, int], s: Sizes, operands: Sequence[TensorType], extra: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """The bound numbers of a call; `extra` ones stand last."""
    n_lead = len(s.lead)
    nothing = len(NUMBERS) + n_lead * (len(operands) + 1)
    lead_places: list[list[int]] = []
    matrix_places: list[int] = []
    at = nothing + 1 + 2 * len(operands) + len(extra)
    for t in operands:
        lead, matrix = _places(t, n_lead, at, nothing)
        lead_places.append(lead)
        matrix_places += matrix
        at += t.ndim
    numbers = numbers | {"scale_at": at, "operands_at": nothing + 1}
    leads = [n for d in reversed(range(n_lead)) for n in (s.lead[d], *(places[d] for places in lead_places))]
    return (*(numbers[name] for name in NUMBERS), *leads, 0, *matrix_places, *extra)


@routine("attention")
def bind_attention(types: Inputs, attrs: Attrs) -> Bound | None:
    query, key, value, mask, scale = types
    s = _sizes(query, key, value)
    if s is None or isinstance(mask, TensorType) or isinstance(scale, TensorType):
        return None
    operands = [t for t in types if isinstance(t, TensorType)]
    dtype = operands[0].dtype
    gemm = gemm_of(FLOATS[dtype._name])
    columns, n_products = gemm.t.columns, s.n_queries * s.n_keys * (s.n_features + s.n_values)
    parts = forward_parts(s, columns)
    numbers = numbers_of(s, attrs["is_causal"], gemm, parts, rounded_up(s.n_keys, columns), n_products)
    address = build(gemm.symbol("attention"), write_forward, gemm)
    result = TensorType((*s.lead, s.n_queries, s.n_values), dtype)
    scratch = numbers["scratch"] * numbers["n_chunks"]
    return Bound(address, "mmm-f", (result,), meta_of(numbers, s, operands), scratch)


@routine("attention_gradient")
def bind_attention_gradient(types: Inputs, attrs: Attrs) -> Bound | None:
    g, query, key, value, scale = types
    s = _sizes(query, key, value, g)
    if s is None or isinstance(scale, TensorType):
        return None
    operands = [t for t in types if isinstance(t, TensorType)]
    dtype = operands[0].dtype
    gemm = gemm_of(FLOATS[dtype._name])
    columns, n_products = gemm.t.columns, s.n_queries * s.n_keys * (3 * s.n_features + 2 * s.n_values)
    parts, strip_width = backward_parts(s, columns), rounded_up(s.n_keys, STRIP_SLIVERS * columns)
    numbers = numbers_of(s, attrs["is_causal"], gemm, parts, strip_width, n_products)
    address = build(gemm.symbol("attention_gradient"), write_backward, gemm)
    shapes = ((s.n_queries, s.n_features), (s.n_keys, s.n_features), (s.n_keys, s.n_values))
    results = tuple(TensorType((*s.lead, *shape), dtype) for shape in shapes)
    scratch = numbers["scratch"] * numbers["n_chunks"]
    return Bound(address, "mmmmf", results, meta_of(numbers, s, operands), scratch)
