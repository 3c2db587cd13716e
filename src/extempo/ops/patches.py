"""Images cut into patches, and added up from them: unfold and fold, each the other's transpose."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Decomposed, Op, Refuse, Rng, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, count, int64
from ..dispatch.dispatcher import apply
from ..errors import ShapeError
from .padding import ConstantPad
from .reduce import wide
from .windows import Ints, as_ints, n_windows, padded, per_sample, places, windows


class Patches(Op):
    """Every window of the last dimensions, (*lead, *size) -> (*lead, *kernel, *counts)."""

    public_name = "unfold"
    family = "index"
    quiet = True
    saves = ("",)
    ragged = Refuse("its function takes the windows of each row, or runs row by row")
    vjp = staticmethod(lambda g, y, x, **attrs: (apply(PatchSum, (g,), attrs),))
    batch = staticmethod(lambda n_samples, x, **attrs: apply(Patches, (x,), attrs))

    @staticmethod
    def infer(x: TensorType, *, size: tuple[int, ...], **attrs: Any) -> TensorType:
        return TensorType((*x.shape[: x.ndim - len(size)], *attrs["kernel"], *_patch_counts(size, **attrs)), x.dtype)

    @staticmethod
    def numpy(
        x: Array,
        *,
        size: tuple[int, ...],
        kernel: tuple[int, ...],
        dilation: tuple[int, ...],
        padding: tuple[int, ...],
        stride: tuple[int, ...],
    ) -> Array:
        counts = _patch_counts(size, kernel, dilation, padding, stride)
        return np.array(windows(padded(x, tuple((p, p) for p in padding)), kernel, stride, dilation, counts), order="C")

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(
            rng.normal(size=(2, 5, 6)), size=(5, 6), kernel=(2, 3), dilation=(2, 1), padding=(1, 0), stride=(1, 2)
        )
        yield Sample(rng.normal(size=(2, 5)), size=(5,), kernel=(2,), dilation=(1,), padding=(0,), stride=(1,))

    @Decomposed
    def onnx(x: Tensor, *, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
        counts = _patch_counts(size, kernel, dilation, padding, stride)
        n, lead = len(size), x.ndim - len(size)
        x = apply(ConstantPad, (x, 0), {"widths": (*((0, 0),) * lead, *((p, p) for p in padding))})
        for i in reversed(range(n)):
            places = ops.arange(kernel[i]).unsqueeze(1) * dilation[i] + ops.arange(counts[i]) * stride[i]
            x = x.index_select(lead + i, places.flatten()).unflatten(lead + i, (kernel[i], counts[i]))
        order = (*range(lead), *range(lead, lead + 2 * n, 2), *range(lead + 1, lead + 2 * n, 2))
        return x.permute(order)


class PatchSum(Op):
    """The adjoint of Patches: each window added where it came from, (*lead, *kernel, *counts) -> (*lead, *size)."""

    public_name = "fold"
    family = "index"
    saves = ("",)
    ragged = Refuse("its function takes the windows of each row, or runs row by row")
    vjp = staticmethod(lambda g, y, x, **attrs: (apply(Patches, (g,), attrs),))
    batch = staticmethod(lambda n_samples, x, **attrs: apply(PatchSum, (x,), attrs))

    @staticmethod
    def infer(x: TensorType, *, size: tuple[int, ...], **attrs: Any) -> TensorType:
        return TensorType((*x.shape[: x.ndim - 2 * len(size)], *size), x.dtype)

    @staticmethod
    def numpy(
        x: Array,
        *,
        size: tuple[int, ...],
        kernel: tuple[int, ...],
        dilation: tuple[int, ...],
        padding: tuple[int, ...],
        stride: tuple[int, ...],
    ) -> Array:
        n = len(size)
        lead = x.shape[: x.ndim - 2 * n]
        canvas = np.zeros((*lead, *(s + 2 * p for s, p in zip(size, padding, strict=True))), wide(x) or x.dtype)
        for k, selected in places(kernel, stride, dilation, x.shape[x.ndim - n :]):
            canvas[selected] += x[(slice(None),) * len(lead) + k]
        inner: Any = (..., *(slice(p, p + s) for s, p in zip(size, padding, strict=True)))
        return np.array(canvas[inner], x.dtype, order="C")

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x = rng.normal(size=(2, 2, 3, 5, 2))
        yield Sample(x, size=(5, 6), kernel=(2, 3), dilation=(2, 1), padding=(1, 0), stride=(1, 2))
        yield Sample(rng.normal(size=(2, 4)), size=(5,), kernel=(2,), dilation=(1,), padding=(0,), stride=(1,))

    @Decomposed
    def onnx(x: Tensor, *, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
        n = len(size)
        shape = x._type.shape
        lead, counts = shape[: x.ndim - 2 * n], shape[x.ndim - n :]
        wide = [s + 2 * p for s, p in zip(size, padding, strict=True)]
        places = ops.zeros((1,) * (2 * n), dtype=int64)
        for i in range(n):
            along = ops.arange(kernel[i]).unsqueeze(1) * dilation[i] + ops.arange(counts[i]) * stride[i]
            beside = [kernel[i] if d == i else counts[i] if d == n + i else 1 for d in range(2 * n)]
            places = places * wide[i] + along.reshape(beside)
        rows = x.reshape(count(lead), count(shape[len(lead) :]))
        canvas = ops.zeros(count(lead), count(wide), dtype=x.dtype).index_add(1, places.flatten(), rows)
        canvas = canvas.reshape(*lead, *wide)
        for i in range(n):
            canvas = canvas.narrow(len(lead) + i, padding[i], size[i])
        return canvas


def _patch_counts(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: tuple[int, ...],
    stride: tuple[int, ...],
) -> tuple[int, ...]:
    return tuple(
        n_windows(s + 2 * p, k, step, d)
        for s, p, k, step, d in zip(size, padding, kernel, stride, dilation, strict=True)
    )


def _patch_attrs(
    op: str, size: tuple[int, ...], kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> dict[str, Any]:
    attrs = {
        "size": size,
        "kernel": as_ints(kernel_size, 2, op, "kernel_size"),
        "dilation": as_ints(dilation, 2, op, "dilation"),
        "padding": as_ints(padding, 2, op, "padding", 0),
        "stride": as_ints(stride, 2, op, "stride"),
    }
    if 0 in _patch_counts(**attrs):
        raise ShapeError(
            f"{op}: no window fits: size {size}, kernel {attrs['kernel']}, dilation {attrs['dilation']}, "
            f"padding {attrs['padding']}"
        )
    return attrs


def unfold(input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> Tensor:
    """Every window of an image as a column: (batch, channel, height, width) -> (batch, channel * places, windows).

    >>> F.unfold(ex.arange(4.0).view(1, 1, 1, 4), (1, 2))[0]
    tensor([[0., 1., 2.],
            [1., 2., 3.]])
    """

    def columns(x: Tensor) -> Tensor:
        attrs = _patch_attrs("unfold", tuple(x.shape[2:]), kernel_size, dilation, padding, stride)
        patches = apply(Patches, (x,), attrs)
        return patches.reshape(x.shape[0], x.shape[1] * math.prod(attrs["kernel"]), math.prod(patches.shape[4:]))

    return per_sample(columns, input, 2, "unfold")


def fold(
    input: Tensor, output_size: Ints, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """The adjoint of unfold: columns (batch, channel * places, windows) added up into images of `output_size`.

    >>> F.fold(ex.ones(1, 2, 2), output_size=(1, 3), kernel_size=(1, 2))[0, 0]
    tensor([[1., 2., 1.]])
    """
    size = as_ints(output_size, 2, "fold", "output_size")
    attrs = _patch_attrs("fold", size, kernel_size, dilation, padding, stride)
    counts, kernel = _patch_counts(**attrs), attrs["kernel"]

    def images(x: Tensor) -> Tensor:
        n_places = math.prod(kernel)
        if x.shape[1] % n_places or x.shape[2] != math.prod(counts):
            raise ShapeError(
                f"fold: expected (batch, a multiple of {n_places}, {math.prod(counts)}) for size {size} and "
                f"kernel {kernel}, got shape {tuple(x.shape)}"
            )
        return apply(PatchSum, (x.reshape(x.shape[0], x.shape[1] // n_places, *kernel, *counts),), attrs)

    return per_sample(images, input, 1, "fold")
