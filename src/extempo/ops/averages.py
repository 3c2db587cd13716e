"""The primitives of average pooling, each the gradient of the other.

Dimensions before the spatial ones are carried along, so a batch is optional everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType
from ..dispatch.dispatcher import apply
from .reduce import wide
from .windows import padded, places, windows

Sizes = tuple[int, ...]
# Windows with more places than this are summed by NumPy's own reduction, never in a loop over places.
_MOST_PLACES = 64


class AvgPool(Op):
    """The mean of each window; what it is divided by is given, or the number of elements in the window.

    `include_pad`: padding counts as elements, but never what lies beyond it.
    """

    family = "reduction"
    saves = ("", "")
    lower = Routine("avg_pool")
    ragged = Refuse("its function takes the windows of each row, or runs row by row")
    batch = staticmethod(lambda size, x, divisor, **attrs: apply(AvgPool, (x, divisor), attrs))

    @staticmethod
    def infer(x: TensorType, divisor: Any, *, kernel: Sizes, counts: Sizes, **attrs: Any) -> TensorType:
        return TensorType((*x.shape[: x.ndim - len(kernel)], *counts), x.dtype)

    @staticmethod
    def numpy(
        x: Array,
        divisor: float | None,
        *,
        kernel: Sizes,
        stride: Sizes,
        padding: Sizes,
        counts: Sizes,
        include_pad: bool,
    ) -> Array:
        sizes = x.shape[x.ndim - len(kernel) :]
        ends = [(n - 1) * s + k for n, s, k in zip(counts, stride, kernel, strict=True)]
        pads = tuple((p, max(0, end - size - p)) for p, end, size in zip(padding, ends, sizes, strict=True))
        full = padded(np.asarray(x, wide(x)), pads)  # sums of half-precision windows overflow where means do not
        ones = (1,) * len(kernel)
        if math.prod(kernel) > _MOST_PLACES:
            lead = x.ndim - len(kernel)
            inner = tuple(range(lead, lead + len(kernel)))
            total = windows(full, kernel, stride, ones, counts).sum(inner, dtype=full.dtype)
        else:
            selections = [selected for _, selected in places(kernel, stride, ones, counts)]
            total = full[selections[0]].copy()
            for selected in selections[1:]:
                total += full[selected]
        divisors = divisors_of(divisor, sizes, kernel, stride, padding, counts, include_pad, total.dtype)
        if total.dtype.kind in "iu":
            return (total - np.fmod(total, divisors)) // divisors  # towards zero
        total /= divisors
        return total.astype(x.dtype, copy=False)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, divisor: Any, *, counts: Sizes, **attrs: Any) -> tuple[Any, ...]:
        sizes = tuple(x.shape[x.ndim - len(counts) :])
        return apply(AvgPoolGrad, (g, divisor), {**attrs, "sizes": sizes}), None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        def draw(*shape: int) -> Array:
            return rng.normal(size=shape)

        yield Sample(draw(2, 3, 7), None, **pool_attrs((3,), (2,), (1,), True, counts=(4,)))
        yield Sample(draw(2, 5, 6), 5, **pool_attrs((2, 3), (1, 2), (0, 1), True, counts=(4, 3)))
        yield Sample(draw(2, 5, 6), None, **pool_attrs((2, 3), (2, 2), (1, 1), False, counts=(3, 4)))
        yield Sample(draw(1, 2, 4, 4, 4), None, **pool_attrs((2,) * 3, (2,) * 3, (0,) * 3, True, counts=(2,) * 3))
        yield Sample(draw(2, 9, 9), None, **pool_attrs((9, 9), (9, 9), (0, 0), True, counts=(1, 1)))
        yield Sample(np.empty((0, 2, 4)), None, **pool_attrs((2,), (2,), (0,), True, counts=(2,)))

    @staticmethod
    def onnx(
        b: Any, x: Any, divisor: Any, *, kernel: Sizes, stride: Sizes, padding: Sizes, counts: Sizes, include_pad: bool
    ) -> Any:
        lead, sizes = x.shape[: x.ndim - len(kernel)], x.shape[x.ndim - len(kernel) :]
        planes = b.reshape(x, (b.product(lead), 1, *sizes))
        planes, pads = b.window_pads(planes, kernel, stride, padding, (1,) * len(kernel), counts, 0.0)
        has_borders = divisor is not None or any(pads) or any(isinstance(s, int) for s in sizes)
        mean = b.AveragePool(planes, kernel_shape=kernel, strides=stride, pads=pads, count_include_pad=1)
        if has_borders:
            if not all(isinstance(s, int) for s in (*sizes, *counts)):
                if not include_pad or divisor is not None:
                    b.refuse(
                        "what lies in each window is known for fixed sizes only; use divisor_override and padding 0"
                    )
            else:
                divisors = divisors_of(
                    divisor, sizes, kernel, stride, padding, counts, include_pad, np.dtype(np.float64)
                )
                mean = b.Mul(mean, b.constant(math.prod(kernel) / divisors, x.dtype))
        return b.reshape(mean, (*lead, *counts))


class AvgPoolGrad(Op):
    """The adjoint of AvgPool: each element, divided, is added to all that lie in its window."""

    family = "reduction"
    saves = ("", "")
    lower = Routine("avg_pool_grad")
    ragged = IN_GRADIENTS_ONLY
    batch = staticmethod(lambda size, g, divisor, **attrs: apply(AvgPoolGrad, (g, divisor), attrs))

    @staticmethod
    def infer(g: TensorType, divisor: Any, *, kernel: Sizes, sizes: Sizes, **attrs: Any) -> TensorType:
        return TensorType((*g.shape[: g.ndim - len(kernel)], *sizes), g.dtype)

    @staticmethod
    def numpy(
        g: Array,
        divisor: float | None,
        *,
        kernel: Sizes,
        stride: Sizes,
        padding: Sizes,
        sizes: Sizes,
        include_pad: bool,
    ) -> Array:
        lead, counts = g.shape[: g.ndim - len(kernel)], g.shape[g.ndim - len(kernel) :]
        dtype = wide(g) or g.dtype
        share = np.asarray(g, dtype) / divisors_of(divisor, sizes, kernel, stride, padding, counts, include_pad, dtype)
        ends = [
            max((n - 1) * s + k, size + p)
            for n, s, k, size, p in zip(counts, stride, kernel, sizes, padding, strict=True)
        ]
        canvas = np.zeros((*lead, *ends), share.dtype)
        for _, selected in places(kernel, stride, (1,) * len(kernel), counts):
            canvas[selected] += share
        crop: Any = (..., *(slice(p, p + size) for p, size in zip(padding, sizes, strict=True)))
        return np.ascontiguousarray(canvas[crop], g.dtype)

    @staticmethod
    def vjp(h: Tensor, y: Any, g: Any, divisor: Any, *, sizes: Sizes, **attrs: Any) -> tuple[Any, ...]:
        counts = tuple(g.shape[g.ndim - len(sizes) :])
        return apply(AvgPool, (h, divisor), {**attrs, "counts": counts}), None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        def draw(*shape: int) -> Array:
            return rng.normal(size=shape)

        yield Sample(draw(2, 3, 4), None, **pool_attrs((3,), (2,), (1,), True, sizes=(7,)))
        yield Sample(draw(2, 4, 3), 5, **pool_attrs((2, 3), (1, 2), (0, 1), True, sizes=(5, 6)))
        yield Sample(draw(2, 3, 4), None, **pool_attrs((2, 3), (2, 2), (1, 1), False, sizes=(5, 6)))
        yield Sample(np.empty((0, 2, 2)), None, **pool_attrs((2,), (2,), (0,), True, sizes=(4,)))

    onnx = GRADIENTS_ONLY


def pool_attrs(kernel: Sizes, stride: Sizes, padding: Sizes, include_pad: bool, **size: Sizes) -> dict[str, Any]:
    """The attributes of AvgPool, with its `counts`, and of AvgPoolGrad, with its `sizes`."""
    return {"kernel": kernel, "stride": stride, "padding": padding, "include_pad": include_pad, **size}


def divisors_of(
    given: float | None,
    sizes: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    counts: Sizes,
    include_pad: bool,
    dtype: Any,
) -> Array:
    """What each window is divided by; the counted number of elements is a product over dimensions."""
    if given is not None:
        return np.asarray(given, dtype)
    divisor = np.ones((1,) * len(kernel), np.int64)
    for axis, (size, k, s, p, n) in enumerate(zip(sizes, kernel, stride, padding, counts, strict=True)):
        starts = np.arange(n) * s - p
        ends = np.minimum(starts + k, size + p)
        if not include_pad:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, size)
        divisor = divisor * (ends - starts).reshape(-1, *(1,) * (len(kernel) - axis - 1))
    return divisor.astype(dtype)
