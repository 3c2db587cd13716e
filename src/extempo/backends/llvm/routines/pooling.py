"""Binding of the pooling routines: max_pool, max_pool_grad, avg_pool and avg_pool_grad, in one or two dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....core.types import TensorType, int64
from ..ir.builder import Type
from .pool_grads import MAX_META, write_avg_grad, write_max_grad
from .pool_rows import META, PoolKind, write_pool
from .routine import FLOATS, Attrs, Bound, Inputs, build, routine

_LARGEST = (1 << 31) - 1
# Elements of input that a thread should at least have to go through.
_CHUNK_ELEMENTS = 1 << 16
_MOST_CHUNKS = 64
_WRITTEN_OUT = {(2, 2), (3, 3)}
Sizes = tuple[int, ...]


def _two(sizes: Sequence[int], missing: int) -> tuple[int, int]:
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (missing, sizes[0])


def _fits(t: TensorType, n_spatial: int, *others: TensorType) -> bool:
    sizes = [math.prod(x.shape) for x in (t, *others)]
    return t.dtype._name in FLOATS and n_spatial <= 2 and min(sizes) > 0 and max(sizes) <= _LARGEST


def _shared_out(n_planes: int, plane: int) -> dict[str, int]:
    """Planes in chunks, by sizes alone."""
    wanted = max(1, min(n_planes, _MOST_CHUNKS, n_planes * plane // _CHUNK_ELEMENTS))
    per_chunk = -(-n_planes // wanted)
    return {"n_planes": n_planes, "planes_per_chunk": per_chunk, "n_chunks": -(-n_planes // per_chunk)}


def _numbers(
    n_planes: int,
    sizes: Sizes,
    *,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    counts: Sizes,
    include_pad: bool = True,
) -> dict[str, int]:
    """What `pool_rows.META` names."""
    out = _shared_out(n_planes, math.prod(sizes)) | {"include_pad": int(include_pad)}
    named = {
        ("height", "width"): _two(sizes, 1),
        ("n_rows", "n_columns"): _two(counts, 1),
        ("kernel_height", "kernel_width"): _two(kernel, 1),
        ("stride_height", "stride_width"): _two(stride, 1),
        ("padding_height", "padding_width"): _two(padding, 0),
        ("dilation_height", "dilation_width"): _two(dilation, 1),
    }
    for names, values in named.items():
        out |= dict(zip(names, values, strict=True))
    width, n, step, pad = sizes[-1], counts[-1], stride[-1], padding[-1]
    first = min(n, -(-pad // step))
    end = (width - 1 + pad - (kernel[-1] - 1) * dilation[-1]) // step + 1
    return out | {"first_inner": first, "end_inner": max(first, min(n, end))}


def _pool(element: Type, is_max: bool, kernel: Sizes, stride: Sizes) -> int:
    """The address of the code; small windows and strides that vectors can be read with have code of their own."""
    small = _two(kernel, 1)
    kind = PoolKind(element, is_max, stride[-1] if stride[-1] <= 2 else 0, small if small in _WRITTEN_OUT else (0, 0))
    return build(kind.name, write_pool, kind)


def _split(t: TensorType, n: int) -> tuple[Sizes, Sizes]:
    """Dimensions that are carried along, and spatial ones."""
    return t.shape[: len(t.shape) - n], t.shape[len(t.shape) - n :]


@routine("max_pool")
def bind_max_pool(types: Inputs, attrs: Attrs) -> Bound | None:
    (x,) = types
    lead, sizes = _split(x, len(attrs["kernel"]))
    y = TensorType((*lead, *attrs["counts"]), x.dtype)
    if not _fits(x, len(sizes), y):
        return None
    numbers = _numbers(math.prod(lead), sizes, **attrs) | {"has_divisor": 0, "divisor": 0}
    address = _pool(FLOATS[x.dtype._name], True, attrs["kernel"], attrs["stride"])
    return Bound(address, "c", (y, TensorType(y.shape, int64)), tuple(numbers[n] for n in META))


@routine("max_pool_grad")
def bind_max_pool_grad(types: Inputs, attrs: Attrs) -> Bound | None:
    g, indices = types
    sizes = attrs["sizes"]
    lead, counts = _split(g, len(sizes))
    y = TensorType((*lead, *sizes), g.dtype)
    if not _fits(g, len(sizes), y) or indices.dtype is not int64 or indices.shape != g.shape:
        return None
    element, plane = FLOATS[g.dtype._name], math.prod(sizes)
    n_rows, n_columns = _two(counts, 1)
    numbers = _shared_out(math.prod(lead), plane) | {
        "plane": plane,
        "width": sizes[-1],
        "n_windows": math.prod(counts),
        "n_rows": n_rows,
        "n_columns": n_columns,
        "halved": int(len(sizes) == 2 and all(s // 2 == n for s, n in zip(sizes, counts, strict=True))),
    }
    address = build(f"max_pool_grad_{element.suffix}", write_max_grad, element)
    return Bound(address, "cc", (y,), tuple(numbers[n] for n in MAX_META))


@routine("avg_pool")
def bind_avg_pool(types: Inputs, attrs: Attrs) -> Bound | None:
    x, divisor = types
    lead, sizes = _split(x, len(attrs["kernel"]))
    y = TensorType((*lead, *attrs["counts"]), x.dtype)
    if not _fits(x, len(sizes), y):
        return None
    address = _pool(FLOATS[x.dtype._name], False, attrs["kernel"], attrs["stride"])
    reads, meta = _with_divisor(divisor, _numbers(math.prod(lead), sizes, **attrs, dilation=(1,) * len(sizes)))
    return Bound(address, reads, (y,), meta)


@routine("avg_pool_grad")
def bind_avg_pool_grad(types: Inputs, attrs: Attrs) -> Bound | None:
    g, divisor = types
    rest = dict(attrs)
    sizes = rest.pop("sizes")
    lead, counts = _split(g, len(sizes))
    y = TensorType((*lead, *sizes), g.dtype)
    if not _fits(g, len(sizes), y):
        return None
    element = FLOATS[g.dtype._name]
    address = build(f"avg_pool_grad_{element.suffix}", write_avg_grad, element)
    numbers = _numbers(math.prod(lead), sizes, **rest, counts=counts, dilation=(1,) * len(sizes))
    reads, meta = _with_divisor(divisor, numbers)
    return Bound(address, reads, (y,), meta, numbers["n_chunks"] * counts[-1] * element.nbytes)


def _with_divisor(divisor: Any, numbers: dict[str, int]) -> tuple[str, tuple[int, ...]]:
    """How the inputs are read, and the bound numbers; a divisor that is given follows them."""
    given = divisor is not type(None)
    numbers["has_divisor"] = int(given)
    meta = tuple(numbers[n] for n in META[:-1])
    return ("cf", meta) if given else ("c-", (*meta, 0))
