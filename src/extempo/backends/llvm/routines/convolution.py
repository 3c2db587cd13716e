"""Binding of the convolution routines: conv, conv_transpose and conv_weight_grad, for one to three dimensions.

Generic code, numbers per call: what is decided here is which columns a tile has (output channels, or groups where they
are many and narrow), what is copied, and how the work is shared out; by sizes alone.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ....core.types import TensorType
from ..ir.builder import Type
from . import conv_apply, conv_weights
from .conv_geometry import Axis, ConvSource, ConvWindow, Scratch, Tables, Three, add_phases, pitches, planned, three
from .conv_tiles import PHASE, Shape
from .routine import FLOATS, Attrs, Bound, Inputs, build, routine

_LARGEST = (1 << 31) - 1
# Groups with no more outputs than this share tiles, one group to a column, where there are enough of them.
_NARROW = 4
# Parts of the work: enough for all threads there are; those of a weight gradient have sums, which may take this much.
_MOST_CHUNKS = 32
_SUMS_BYTES = 1 << 24

Numbers = dict[str, int]


class ConvCall(NamedTuple):
    """A convolution from `source` (batch, groups * channels, ...) to `result` (batch, groups * outputs, ...)."""

    shape: Shape
    source: TensorType
    result: TensorType
    axes: list[Axis]
    groups: int
    channels: int
    outputs: int
    weight_channel: int  # elements from one to the next in the weight
    weight_output: int

    @property
    def kernel(self) -> Three:
        return three([axis.kernel for axis in self.axes], 1)

    @property
    def counts(self) -> Three:
        return three([axis.n_results for axis in self.axes], 1)


def _element(tensors: tuple[Any, ...]) -> Type | None:
    """The element type if there is native code for these operands: one dtype, nothing empty, indices within int32."""
    types = [t for t in tensors if isinstance(t, TensorType)]
    fits = all(0 < math.prod(t.shape) <= _LARGEST for t in types) and len(types[0].shape) <= 5
    return FLOATS.get(types[0].dtype._name) if fits and len({t.dtype for t in types}) == 1 else None


def _shape(element: Type, groups: int, outputs: int) -> Shape:
    narrow = Shape(element, "narrow")
    if outputs <= _NARROW and 2 * groups >= narrow.lanes:
        return Shape(element, "grouped")
    return narrow if outputs <= narrow.columns else Shape(element, "wide")


@routine("conv")
def bind_conv(types: Inputs, attrs: Attrs) -> Bound | None:
    return _bind(types, **attrs, is_transposed=False)


@routine("conv_transpose")
def bind_conv_transpose(types: Inputs, attrs: Attrs) -> Bound | None:
    return _bind(types, **attrs, is_transposed=True)


def _bind(
    types: Inputs,
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    counts: tuple[int, ...],
    is_transposed: bool,
) -> Bound | None:
    x, w, bias = types
    n_outputs = w.shape[1] * groups if is_transposed else w.shape[0]
    result = TensorType((x.shape[0], n_outputs, *counts), x.dtype)
    element = _element((x, w, bias, result))
    if element is None:
        return None
    axes = [
        Axis(*numbers, is_transposed) for numbers in zip(w.shape[2:], stride, dilation, padding, counts, strict=True)
    ]
    n_places, channels, outputs = math.prod(w.shape[2:]), x.shape[1] // groups, n_outputs // groups
    inner, outer = (outputs * n_places, n_places) if is_transposed else (n_places, channels * n_places)
    call = ConvCall(_shape(element, groups, outputs), x, result, axes, groups, channels, outputs, inner, outer)
    tables, scratch = Tables(), Scratch()
    numbers = _common(call, tables, scratch)
    n_rows = numbers["n_units"] * numbers["n_panels"] * (max(phase["n_steps"] for phase in tables.phases) + 1)
    numbers |= {
        "panels_at": scratch.take(n_rows * call.shape.columns * element.nbytes),
        "n_phases": len(tables.phases),
        "has_bias": isinstance(bias, TensorType),
    }
    reads = "ccc" if numbers["has_bias"] else "cc-"
    return _bound("conv", conv_apply.write_conv, conv_apply.META, call, numbers, tables, scratch, reads, (result,))


@routine("conv_weight_grad")
def bind_conv_weight_grad(types: Inputs, attrs: Attrs) -> Bound | None:
    x, g = types
    groups, kernel = attrs["groups"], attrs["kernel"]
    weight = TensorType((g.shape[1], x.shape[1] // groups, *kernel), x.dtype)
    element = _element((x, g, weight))
    if element is None:
        return None
    sizes = zip(kernel, attrs["stride"], attrs["dilation"], attrs["padding"], g.shape[2:], strict=True)
    axes = [Axis(*numbers, False) for numbers in sizes]
    n_places, channels, outputs = math.prod(kernel), weight.shape[1], g.shape[1] // groups
    shape = _shape(element, groups, outputs)
    call = ConvCall(shape, x, g, axes, groups, channels, outputs, n_places, channels * n_places)
    panel_rows = 1 + -(-channels * n_places // shape.rows) * shape.rows
    n_panels = -(-groups // shape.columns) * outputs if shape.by_group else groups * -(-outputs // shape.columns)
    sums_bytes = n_panels * panel_rows * shape.columns * element.nbytes
    tables, scratch = Tables(), Scratch()
    numbers = _common(call, tables, scratch, max(1, min(_MOST_CHUNKS, _SUMS_BYTES // sums_bytes)))
    n_chunks = numbers["n_chunks"]
    numbers |= {
        "panel_rows": panel_rows,
        "panels_at": scratch.take(n_chunks * conv_weights.PIXELS * shape.columns * element.nbytes),
        "sums_at": scratch.take(n_chunks * sums_bytes),
        "sums_bytes": sums_bytes,
    }
    writes = (weight, TensorType((g.shape[1],), x.dtype))
    write, names = conv_weights.write_weight_grad, conv_weights.META
    return _bound("conv_weight_grad", write, names, call, numbers, tables, scratch, "cc", writes)


def _common(call: ConvCall, tables: Tables, scratch: Scratch, most_chunks: int = _MOST_CHUNKS) -> Numbers:
    """The numbers that all convolutions have; their tables; their part of the scratch memory."""
    shape, counts, nbytes = call.shape, call.counts, call.shape.element.nbytes
    n_images, n_steps = call.source.shape[0], call.channels * math.prod(call.kernel)
    lanes = shape.lanes if shape.by_group else 1
    source = ConvSource(n_images, three(call.source.shape[2:], 1), call.channels * lanes * nbytes, lanes)
    plan = planned(call.axes, source, math.prod(counts) * n_steps * call.outputs * call.groups, most_chunks)
    window = ConvWindow.of(plan, source)
    image = window.plane * call.channels
    source_image, result_image = (math.prod(t.shape[1:]) for t in (call.source, call.result))
    image_pitch = image if window.copies else source_image
    copy_bytes = -(-image * plan.images_per_block * nbytes // 64) * 64 if window.copies else 0
    add_phases(tables, window, call.channels, call.kernel, counts, call.weight_channel, (image_pitch, result_image))
    n_rows = plan.images_per_block * max(min(p["n_along"], plan.band) * p["n_across"] for p in tables.phases)
    band_pitch = pitches(counts)[plan.band_axis] * plan.axes[plan.band_axis].result_step
    return {
        "n_images": n_images,
        "n_items": -(-n_images // plan.images_per_block) * plan.n_bands,
        "items_per_chunk": plan.items_per_chunk,
        "n_chunks": plan.n_chunks,
        "n_bands": plan.n_bands,
        "images_per_block": plan.images_per_block,
        "band": plan.band,
        "band_result": plan.band * band_pitch,
        "image_pitch": image_pitch,
        "source_image": source_image,
        "copies": window.copies,
        "copy_bytes": copy_bytes,
        "channels": call.channels,
        "contiguous": len(tables.phases) == 1 and plan.images_per_block == 1,
        "result_image": result_image,
        "steps_at": scratch.take(4 * n_steps),
        "weight_steps_at": scratch.take(4 * n_steps),
        "rows_at": scratch.take(4 * n_rows),
        "results_at": scratch.take(4 * n_rows),
        "copies_at": scratch.take(copy_bytes * plan.n_chunks),
        **window.numbers(call.channels),
        **_columns(call),
    }


def _columns(call: ConvCall) -> Numbers:
    """How channels fall into units, panels and columns, and the strides of these in each operand."""
    n, by_group = call.shape.columns, call.shape.by_group
    plane, n_places = math.prod(call.counts), math.prod(call.kernel)
    # For each operand, elements from one group to the next and from one output to the next.
    strides = {
        "result": (call.outputs * plane, plane),
        "weight": (call.channels * call.outputs * n_places, call.weight_output),
        "bias": (call.outputs, 1),
    }
    groups_per_unit, outputs_per_panel = (n, 1) if by_group else (1, n)
    out = {
        "n_units": -(-call.groups // groups_per_unit),
        "n_panels": -(-call.outputs // outputs_per_panel),
        "n_columns": call.groups if by_group else call.outputs,
        "columns_per_unit": n if by_group else 0,
        "columns_per_panel": 0 if by_group else n,
        "source_unit": groups_per_unit * call.channels * math.prod(call.source.shape[2:]),
    }
    for operand, (group, output) in strides.items():
        out[f"{operand}_unit"] = groups_per_unit * group
        out[f"{operand}_panel"] = outputs_per_panel * output
        out[f"{operand}_column"] = group if by_group else output
    return out


def _bound(
    name: str,
    write: Any,
    names: tuple[str, ...],
    call: ConvCall,
    numbers: Numbers,
    tables: Tables,
    scratch: Scratch,
    reads: str,
    writes: tuple[TensorType, ...],
) -> Bound | None:
    if numbers["image_pitch"] * numbers["images_per_block"] > _LARGEST or scratch.size > _LARGEST:
        return None
    entries = tables.entries()
    phases = np.array([[phase[word] for word in PHASE] for phase in tables.phases], np.int64)
    numbers |= {"phases": phases.ctypes.data, "entries": entries.ctypes.data}
    address = build(f"{name}_{call.shape.name}", write, call.shape)
    meta = tuple(int(numbers[word]) for word in names)
    return Bound(address, reads, writes, meta, scratch.size, keep=(phases, entries))
