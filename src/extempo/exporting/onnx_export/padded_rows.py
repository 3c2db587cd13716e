"""Ragged inputs and outputs of an ONNX model in the padded form: rows filled up to the longest, and their lengths.

A program has the values of all rows end to end and their offsets. `to_onnx(..., ragged="padded")` puts the way from one
form to the other into the model: `Compress` takes what is no filling, `Gather` puts zeros where a row has ended.
"""

from __future__ import annotations

from typing import Any

from ...core.types import TensorType, int64
from ...errors import ExportError
from ..calls import RaggedInput, named_size
from ..sizes import SizeExpr
from .builder import Builder, OnnxValue

FORMS = ("offsets", "padded")


def add_padded_input(b: Builder, ragged: RaggedInput, values: TensorType, offsets: TensorType) -> dict[int, OnnxValue]:
    """Two inputs of the model, padded rows and lengths; the values and the offsets that the program reads."""
    _check_dim(ragged)
    rows, longest, inner = _one_less(offsets.shape[0]), _longest(ragged), values.shape[1:]
    padded = b.add_input(ragged.name, TensorType((rows, longest, *inner), values.dtype))
    given = b.add_input(f"{ragged.name}.lengths", TensorType((rows,), int64))
    lengths = b.Min(b.Max(given, 0), b.size(longest))  # ONNX cannot refuse a length: it is brought into range
    is_value = b.Less(b.Range(b.size(0), b.size(longest), b.size(1)), b.Unsqueeze(lengths, [1]))
    n_places = b.Mul(b.size(rows), b.size(longest))
    flat = b.Reshape(padded, b.ints([n_places, *inner]), allowzero=1)
    taken = b.Compress(flat, b.Reshape(is_value, b.ints([n_places]), allowzero=1), axis=0)
    b.name_size(named_size(values.shape[0])[0], taken)
    ends = b.CumSum(lengths, b.size(0))
    return {ragged.values: taken, ragged.offsets: b.Concat(b.ints([0]), ends, axis=0)}


def padded_output(
    b: Builder, ragged: RaggedInput, values: OnnxValue, offsets: OnnxValue, types: tuple[TensorType, TensorType]
) -> list[tuple[str, OnnxValue, TensorType]]:
    """The padded rows and the lengths of a ragged result, by name."""
    _check_dim(ragged)
    starts = b.Slice(offsets, [0], [-1], [0])
    lengths = b.Sub(b.Slice(offsets, [1], [2**62], [0]), starts)
    longest = b.reduce("ReduceMax", b.Concat(b.ints([0]), lengths, axis=0), (0,), False)  # there may be no rows
    places = b.Range(b.size(0), longest, b.size(1))
    is_value = b.Less(places, b.Unsqueeze(lengths, [1]))
    inner = types[0].shape[1:]
    filling = b.Expand(b.constant(0, values.dtype), b.ints([1, *inner]))  # one row of zeros, behind all values
    n_values = b.Shape(values, start=0, end=1)
    index = b.Where(is_value, b.Add(b.Unsqueeze(starts, [1]), places), n_values)
    padded = b.Gather(b.Concat(values, filling, axis=0), index, axis=0)
    rows = _one_less(types[1].shape[0])
    return [
        (ragged.name, padded, TensorType((rows, _longest(ragged), *inner), types[0].dtype)),
        (f"{ragged.name}.lengths", lengths, TensorType((rows,), int64)),
    ]


def _one_less(size: Any) -> Any:
    """The number of rows that so many offsets are of."""
    if not isinstance(size, SizeExpr):
        return size - 1
    terms = dict(size.terms)
    return SizeExpr({**terms, (): terms.get((), 0) - 1})


def _longest(ragged: RaggedInput) -> Any:
    """The size of padded rows."""
    return SizeExpr.of(f"{ragged.name.replace('.', '_')}_longest")


def check_form(form: Any) -> None:
    if form not in FORMS:
        raise ExportError(f"to_onnx: ragged must be one of {', '.join(map(repr, FORMS))}, got {form!r}")


def _check_dim(ragged: RaggedInput) -> None:
    if ragged.dim != 1:
        raise ExportError(
            f"to_onnx: {ragged.name} is ragged in dimension {ragged.dim}, and ragged='padded' is for dimension 1; "
            "leave it out, which gives values and offsets"
        )
