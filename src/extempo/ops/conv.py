"""Convolution: one primitive for any number of spatial dimensions, closed under differentiation.

    y[n, o, p] = sum over c, k of w[o, c, k] * x[n, c, p * stride - low + k * dilation]

where x may be spread out by `input_dilation` first, padding may be negative, and `flip` reads the kernel backwards. A
transposed convolution, and the gradients of both inputs, are this op again with operands and roles exchanged (the way
of XLA's ConvGeneralDilated). With `feature_groups` the channels of x and the outputs of w fall into groups, with
`batch_groups` the samples of x and the outputs of w do; the weight gradient of one kind is a convolution of the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._tensor import Tensor
from ..errors import DtypeError, ShapeError
from ..op import Op, Rng, Sample
from ..running import apply
from ..storage import Array
from ..types import TensorType, bool_
from .windows import Ints, Pads, as_ints, batched, dilated, dilated_size, n_windows, padded, places, windows

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
]

FUNCTIONAL = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]

# Elements of the matrix that windows are copied into. With one product per sample, what the second-level cache holds
# next to the operands; with one product for many, rows enough to keep it busy (measured: half the time of 2^18).
_WORKSPACE = {True: 1 << 18, False: 1 << 22}
# Kernels with more places than this go through one matrix product, never through a loop over places.
_MOST_PLACES = 64


class Conv(Op):
    """Sums of products over sliding windows. x: (batch, channel, *spatial), w: (output, channel, *kernel)."""

    family = "contraction"
    saves = ("w", "x")

    @staticmethod
    def infer(
        x: TensorType,
        w: TensorType,
        *,
        stride: tuple[int, ...],
        padding: Pads,
        dilation: tuple[int, ...],
        input_dilation: tuple[int, ...],
        feature_groups: int,
        batch_groups: int,
        flip: bool,
    ) -> TensorType:
        if x.dtype is not w.dtype:
            raise DtypeError(
                f"conv: expected both of one dtype, got {x.dtype} and {w.dtype}; convert one with .to(...)"
            )
        if x.dtype is bool_:
            raise DtypeError("conv: expected numbers, got bool tensors; use x.float()")
        if x.shape[1] != w.shape[1] * feature_groups or w.shape[0] % (feature_groups * batch_groups):
            raise ShapeError(
                f"conv: x {x.shape} and w {w.shape} do not fit {feature_groups} feature and {batch_groups} batch groups"
            )
        counts = tuple(
            n_windows(dilated_size(size, spread) + low + high, k, s, d)
            for size, spread, (low, high), k, s, d in zip(
                x.shape[2:], input_dilation, padding, w.shape[2:], stride, dilation, strict=True
            )
        )
        return TensorType((x.shape[0] // batch_groups, w.shape[0], *counts), x.dtype)

    @classmethod
    def numpy(cls, x: Array, w: Array, *, feature_groups: int, batch_groups: int, flip: bool, **attrs: Any) -> Array:
        half = x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
        if half:
            return cls.numpy(
                x.astype(np.float32),
                w.astype(np.float32),
                feature_groups=feature_groups,
                batch_groups=batch_groups,
                flip=flip,
                **attrs,
            ).astype(x.dtype)
        groups = feature_groups * batch_groups
        n_spatial = x.ndim - 2
        if feature_groups > 1:
            x = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]).swapaxes(0, 1)
        else:
            x = x.reshape(groups, x.shape[0] // groups, *x.shape[1:])
        w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
        if flip:
            backwards: Any = (..., *(slice(None, None, -1),) * n_spatial)
            w = w[backwards]
        y = _grouped(x, w, **attrs)
        return y.reshape(y.shape[0], groups * y.shape[2], *y.shape[3:])

    @staticmethod
    def vjp(
        g: Tensor,
        y: Any,
        x: Any,
        w: Any,
        *,
        stride: tuple[int, ...],
        padding: Pads,
        dilation: tuple[int, ...],
        input_dilation: tuple[int, ...],
        feature_groups: int,
        batch_groups: int,
        flip: bool,
    ) -> tuple[Any, ...]:
        groups = feature_groups * batch_groups
        reach = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
        x_sizes = [dilated_size(s, d) for s, d in zip(x.shape[2:], input_dilation, strict=True)]
        y_sizes = [dilated_size(s, d) for s, d in zip(g.shape[2:], stride, strict=True)]
        lows = [low for low, _ in padding]
        back = tuple((r - low, a - b + low) for r, low, a, b in zip(reach, lows, x_sizes, y_sizes, strict=True))

        def into_x() -> Tensor:
            attrs = _attrs(input_dilation, back, dilation, stride, groups, 1, not flip)
            dx = apply(Conv, (g, exchange_channels(w, groups)), attrs)
            return dx if batch_groups == 1 else exchange_channels(dx.transpose(0, 1), groups)

        def into_w() -> Tensor:
            if flip:
                # Read backwards, the kernel's gradient is g scanned by x.
                a = (
                    exchange_channels(g.transpose(0, 1), groups).transpose(0, 1)
                    if batch_groups > 1
                    else g.transpose(0, 1)
                )
                b = exchange_channels(x, groups) if batch_groups > 1 else x.transpose(0, 1)
                attrs = _attrs(dilation, back, input_dilation, stride, batch_groups, feature_groups, False)
                dw = apply(Conv, (a, b), attrs)
                return dw if groups == 1 else exchange_channels(dw.transpose(0, 1), groups)
            pads = tuple((low, r + b - a - low) for low, r, a, b in zip(lows, reach, x_sizes, y_sizes, strict=True))
            attrs = _attrs(dilation, pads, stride, input_dilation, batch_groups, feature_groups, False)
            return apply(Conv, (x.transpose(0, 1), g.transpose(0, 1)), attrs).transpose(0, 1)

        return into_x, into_w

    @staticmethod
    def batch(size: int, x: Tensor, w: Tensor, *, feature_groups: int, batch_groups: int, **attrs: Any) -> Tensor:
        # One group more per sample: a batch of kernels is a grouped convolution.
        w = w.reshape(size * w.shape[1], *w.shape[2:])
        if batch_groups > 1:
            x = x.reshape(size * x.shape[1], *x.shape[2:])
            batch_groups *= size
        else:
            x = x.transpose(0, 1)
            x = x.reshape(x.shape[0], size * x.shape[2], *x.shape[3:])
            feature_groups *= size
        y = apply(Conv, (x, w), {"feature_groups": feature_groups, "batch_groups": batch_groups, **attrs})
        return y.reshape(y.shape[0], size, y.shape[1] // size, *y.shape[2:]).transpose(0, 1)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        def draw(*shape: int) -> Array:
            return rng.normal(size=shape)

        yield Sample(draw(2, 3, 7), draw(4, 3, 3), **_attrs((1,), ((1, 1),), (1,), (1,)))
        yield Sample(draw(2, 2, 5, 6), draw(3, 2, 3, 2), **_attrs((2, 1), ((1, 0), (-1, 2)), (1, 2), (1, 1)))
        yield Sample(draw(2, 4, 5), draw(6, 2, 2), **_attrs((2,), ((1, 1),), (1,), (1,), 2))
        yield Sample(draw(4, 2, 5), draw(6, 2, 2), **_attrs((1,), ((0, 1),), (1,), (1,), 1, 2))
        yield Sample(draw(2, 3, 4), draw(3, 1, 3), **_attrs((1,), ((0, 0),), (1,), (1,), 3))
        yield Sample(draw(2, 3, 4), draw(2, 3, 3), **_attrs((1,), ((2, 1),), (1,), (2,), flip=True))
        yield Sample(draw(2, 4, 3), draw(2, 2, 2), **_attrs((1,), ((1, 2),), (2,), (3,), 2, flip=True))
        yield Sample(draw(4, 2, 3), draw(4, 2, 2), **_attrs((1,), ((1, 1),), (1,), (2,), 1, 2, True))
        yield Sample(draw(2, 1, 3), draw(2, 1, 2), **_attrs((2,), ((1, 1),), (1,), (2,)))
        yield Sample(draw(1, 2, 3, 3, 3), draw(2, 2, 2, 2, 2), **_attrs((1, 1, 1), ((0, 0),) * 3, (1, 1, 1), (1, 1, 1)))
        yield Sample(draw(0, 2, 4), draw(3, 2, 2), **_attrs((1,), ((0, 0),), (1,), (1,)))


def _attrs(
    stride: tuple[int, ...],
    padding: Pads,
    dilation: tuple[int, ...],
    input_dilation: tuple[int, ...],
    feature_groups: int = 1,
    batch_groups: int = 1,
    flip: bool = False,
) -> dict[str, Any]:
    return {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "input_dilation": input_dilation,
        "feature_groups": feature_groups,
        "batch_groups": batch_groups,
        "flip": flip,
    }


def convolve(x: Tensor, w: Tensor, *, stride: tuple[int, ...], padding: Pads) -> Tensor:
    """The plain form of the primitive, for the use of other ops."""
    ones = (1,) * len(stride)
    return apply(Conv, (x, w), _attrs(stride, padding, ones, ones))


def exchange_channels(t: Tensor, groups: int) -> Tensor:
    """(groups * a, b, ...) as (groups * b, a, ...)."""
    if groups == 1:
        return t.transpose(0, 1)
    a, b, rest = t.shape[0] // groups, t.shape[1], t.shape[2:]
    return t.reshape(groups, a, b, *rest).transpose(1, 2).reshape(groups * b, a, *rest)


# ---- the NumPy kernel


def _grouped(
    x: Array,
    w: Array,
    *,
    stride: tuple[int, ...],
    padding: Pads,
    dilation: tuple[int, ...],
    input_dilation: tuple[int, ...],
) -> Array:
    """x: (group, batch, channel, *spatial), w: (group, output, channel, *kernel) -> (batch, group, output, *counts)."""
    counts = tuple(
        n_windows(dilated_size(size, spread) + low + high, k, s, d)
        for size, spread, (low, high), k, s, d in zip(
            x.shape[3:], input_dilation, padding, w.shape[3:], stride, dilation, strict=True
        )
    )
    few_places = math.prod(w.shape[3:]) <= _MOST_PLACES
    # Adding products up also beats copying windows where there are far more channels than outputs.
    if few_places and max(stride) == 1 and (max(input_dilation) > 1 or w.shape[2] >= 4 * w.shape[1]):
        return _scattered(x, w, [low for low, _ in padding], dilation, input_dilation, counts)
    x = padded(dilated(x, input_dilation), padding)
    y = np.empty((x.shape[1], x.shape[0], w.shape[1], *counts), x.dtype)
    if not y.size:
        return y
    if w.shape[1] == w.shape[2] == 1 and few_places:
        _multiplied(x, w, y.swapaxes(0, 1), stride, dilation, counts)
    else:
        _contracted(x, w, y.swapaxes(0, 1), stride, dilation, counts)
    return y


def _contracted(
    x: Array, w: Array, y: Array, stride: tuple[int, ...], dilation: tuple[int, ...], counts: tuple[int, ...]
) -> None:
    """Copy the windows of a few samples into a matrix, multiply, go on: the matrix stays in cache."""
    groups, n_batch, n_channels = x.shape[:3]
    kernel = w.shape[3:]
    rank = len(kernel)
    n_places, n_counts = math.prod(kernel), math.prod(counts)
    seen = windows(x, kernel, stride, dilation, counts)
    w = w.reshape(groups, w.shape[1], n_channels * n_places)
    # The longer of the two goes last in the matrix, so that copies run over long rows.
    windows_last = n_counts >= n_places
    chunk = max(1, _WORKSPACE[windows_last] // max(1, groups * n_channels * n_places * n_counts))
    if not windows_last:
        seen = seen.transpose(0, 1, *range(3 + rank, 3 + 2 * rank), *range(2, 3 + rank))
    for first in range(0, n_batch, chunk):
        part = seen[:, first : first + chunk]
        n = part.shape[1]
        if windows_last:
            out = y[:, first : first + n].reshape(groups, n, y.shape[2], n_counts)
            np.matmul(w[:, None], part.reshape(groups, n, n_channels * n_places, n_counts), out=out)
        else:
            matrix = part.reshape(groups, n * n_counts, n_channels * n_places)
            product = np.matmul(matrix, w.swapaxes(1, 2)).reshape(groups, n, *counts, y.shape[2])
            y[:, first : first + n] = np.moveaxis(product, -1, 2)


def _multiplied(
    x: Array, w: Array, y: Array, stride: tuple[int, ...], dilation: tuple[int, ...], counts: tuple[int, ...]
) -> None:
    """One channel in, one out per group: a multiplication for each place of the kernel beats thin matrix products."""
    y.fill(0)
    for k, selected in places(w.shape[3:], stride, dilation, counts):
        y += x[selected] * _factor(w, k, x.ndim)


def _factor(w: Array, k: tuple[int, ...], ndim: int) -> Array:
    """The weights of one channel at one place, (group, 1, output, 1, ...)."""
    return w[(slice(None), None, slice(None), 0, *k)].reshape(w.shape[0], 1, w.shape[1], *(1,) * (ndim - 3))


def _scattered(
    x: Array,
    w: Array,
    lows: list[int],
    dilation: tuple[int, ...],
    input_dilation: tuple[int, ...],
    counts: tuple[int, ...],
) -> Array:
    """Stride 1 over a spread-out input: multiply what is there, then add each product where it belongs."""
    groups, n_batch, n_channels, *sizes = x.shape
    n_outputs, kernel = w.shape[1], w.shape[3:]
    # Element j at place k goes to y[j * spread + low - k * dilation]; the canvas begins where the smallest of these is.
    first = [min(0, low - (k - 1) * d) for low, k, d in zip(lows, kernel, dilation, strict=True)]
    last = [
        max(n, dilated_size(s, spread) + low)
        for n, s, spread, low in zip(counts, sizes, input_dilation, lows, strict=True)
    ]
    canvas = np.zeros((n_batch, groups, n_outputs, *(b - a for a, b in zip(first, last, strict=True))), x.dtype)
    view = canvas.swapaxes(0, 1)
    products: Array | None = None
    if n_channels > 1:
        flat = w.swapaxes(1, 2).reshape(groups, 1, n_channels, n_outputs * math.prod(kernel)).swapaxes(2, 3)
        products = np.matmul(flat, x.reshape(groups, n_batch, n_channels, math.prod(sizes)))
        products = products.reshape(groups, n_batch, n_outputs, *kernel, *sizes)
    for k in np.ndindex(*kernel):
        starts = [low - a - i * d for low, a, i, d in zip(lows, first, k, dilation, strict=True)]
        spans = zip(starts, sizes, input_dilation, strict=True)
        where: Any = (..., *(slice(start, start + s * spread, spread) for start, s, spread in spans))
        part = x * _factor(w, k, x.ndim) if products is None else products[(slice(None),) * 3 + k]
        view[where] += part
    crop: Any = (..., *(slice(-a, n - a) for a, n in zip(first, counts, strict=True)))
    return np.ascontiguousarray(canvas[crop])


# ---- functions


def _same_padding(
    op: str, padding: Any, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> Pads:
    n = len(kernel)
    if not isinstance(padding, str):
        return tuple((p, p) for p in as_ints(padding, n, op, "padding", 0))
    if padding == "valid":
        return ((0, 0),) * n
    if padding != "same":
        raise ShapeError(f"{op}: padding must be ints, 'same' or 'valid', got {padding!r}")
    if any(s != 1 for s in stride):
        raise ShapeError(f"{op}: padding='same' needs stride 1, got {stride}; give the padding in numbers")
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple((t // 2, t - t // 2) for t in totals)


def _check(op: str, x: Tensor, w: Tensor, bias: Tensor | None, n: int, groups: int, transposed: bool) -> None:
    """Ranks, dtypes, channels and groups; `x` is batched."""
    if w.ndim != n + 2:
        raise ShapeError(f"{op}: expected a weight with {n + 2} dimensions, got shape {tuple(w.shape)}")
    for name, t in (("weight", w), ("bias", bias)):
        if t is not None and t.dtype is not x.dtype:
            raise DtypeError(f"{op}: input is {x.dtype} but {name} is {t.dtype}; convert one with .to(...)")
    if groups < 1:
        raise ShapeError(f"{op}: groups must be at least 1, got {groups}")
    channels = x.shape[1]
    expected = w.shape[0] if transposed else w.shape[1] * groups
    if channels != expected:
        raise ShapeError(
            f"{op}: input of shape {tuple(x.shape)} has {channels} channels, weight of shape {tuple(w.shape)} with "
            f"groups={groups} expects {expected}{_channel_hint(x, w, n, groups, transposed)}"
        )
    if w.shape[0] % groups:
        raise ShapeError(
            f"{op}: weight of shape {tuple(w.shape)} has {w.shape[0]} rows, not a multiple of groups={groups}"
        )
    outputs = w.shape[1] * groups if transposed else w.shape[0]
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise ShapeError(
            f"{op}: expected a bias of shape ({outputs},), one per output channel, got {tuple(bias.shape)}"
        )


def _channel_hint(x: Tensor, w: Tensor, n: int, groups: int, transposed: bool) -> str:
    channels, expected = x.shape[1], w.shape[0] if transposed else w.shape[1] * groups
    if x.shape[-1] == expected:
        return f"; channels come first here, did you mean x.movedim(-1, {-n - 1})?"
    if x.shape[0] == expected and channels == 1:
        return "; did you mean x.transpose(0, 1)?"
    if not transposed and w.shape[1] and channels % w.shape[1] == 0 and w.shape[0] % (channels // w.shape[1]) == 0:
        return f"; did you mean groups={channels // w.shape[1]}?"
    if not transposed and channels == w.shape[0]:
        return "; a weight is (output, input, ...), did you mean weight.transpose(0, 1)?"
    return ""


def _conv(
    op: str,
    n: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints | str,
    dilation: Ints,
    groups: int,
) -> Tensor:
    x, had_batch = batched(input, n, op)
    _check(op, x, weight, bias, n, groups, transposed=False)
    kernel = tuple(weight.shape[2:])
    strides, dilations = as_ints(stride, n, op, "stride"), as_ints(dilation, n, op, "dilation")
    pads = _same_padding(op, padding, kernel, strides, dilations)
    sizes = [s + low + high for s, (low, high) in zip(x.shape[2:], pads, strict=True)]
    for size, k, d in zip(sizes, kernel, dilations, strict=True):
        if k < 1 or dilated_size(k, d) > size:
            spans = tuple(dilated_size(k, d) for k, d in zip(kernel, dilations, strict=True))
            raise ShapeError(
                f"{op}: the kernel spans {spans}, more than the padded input {tuple(sizes)} "
                f"(input {tuple(input.shape)}, weight {tuple(weight.shape)}, dilation {dilations}); add padding"
            )
    y = apply(Conv, (x, weight), _attrs(strides, pads, dilations, (1,) * n, groups))
    return _finish(y, bias, n, had_batch)


def _conv_transpose(
    op: str,
    n: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    output_padding: Ints,
    groups: int,
    dilation: Ints,
) -> Tensor:
    x, had_batch = batched(input, n, op)
    _check(op, x, weight, bias, n, groups, transposed=True)
    kernel = tuple(weight.shape[2:])
    strides, dilations = as_ints(stride, n, op, "stride"), as_ints(dilation, n, op, "dilation")
    crops, extras = as_ints(padding, n, op, "padding", 0), as_ints(output_padding, n, op, "output_padding", 0)
    for extra, s, d in zip(extras, strides, dilations, strict=True):
        if extra >= s and extra >= d:
            raise ShapeError(
                f"{op}: output_padding {extras} must be smaller than stride {strides} or dilation {dilations}; "
                "it only chooses among the sizes that a forward convolution maps to this input's size"
            )
    spans = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
    sizes = tuple(
        (s - 1) * step - 2 * crop + span + extra + 1
        for s, step, crop, span, extra in zip(x.shape[2:], strides, crops, spans, extras, strict=True)
    )
    if any(s < 1 for s in sizes):
        raise ShapeError(
            f"{op}: an input of shape {tuple(input.shape)} gives an output of size {sizes}; use less padding"
        )
    pads = tuple((span - crop, span - crop + extra) for span, crop, extra in zip(spans, crops, extras, strict=True))
    attrs = _attrs((1,) * n, pads, dilations, strides, groups, flip=True)
    return _finish(apply(Conv, (x, exchange_channels(weight, groups)), attrs), bias, n, had_batch)


def _finish(y: Tensor, bias: Tensor | None, n: int, had_batch: bool) -> Tensor:
    if bias is not None:
        y = y + bias.reshape(-1, *(1,) * n)
    return y if had_batch else y.squeeze(0)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """Slide kernels along a signal. input: (batch, channel, length), weight: (output, channel / groups, width).

    >>> ex.conv1d(ex.tensor([[[1.0, 2.0, 4.0, 8.0]]]), ex.tensor([[[-1.0, 1.0]]]))
    tensor([[[1., 2., 4.]]])
    """
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """Slide kernels over an image. input: (batch, channel, height, width), weight: (output, channel / groups, h, w).

    >>> ex.conv2d(ex.ones(1, 1, 3, 3), ex.ones(1, 1, 2, 2))[0, 0]
    tensor([[4., 4.],
            [4., 4.]])
    """
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """Slide kernels through a volume. input: (batch, channel, depth, height, width).

    >>> ex.conv3d(ex.ones(1, 1, 3, 2, 2), ex.ones(1, 1, 2, 2, 2)).flatten()
    tensor([8., 8.])
    """
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """The adjoint of conv1d: it maps back from the output's size. weight: (channel, output / groups, width).

    >>> ex.conv_transpose1d(ex.tensor([[[1.0, 2.0]]]), ex.tensor([[[1.0, 10.0]]]), stride=2)
    tensor([[[ 1., 10.,  2., 20.]]])
    """
    return _conv_transpose(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """The adjoint of conv2d: it maps back from the output's size. weight: (channel, output / groups, h, w).

    >>> ex.conv_transpose2d(ex.tensor([[[[1.0, 2.0]]]]), ex.ones(1, 1, 2, 1))[0, 0]
    tensor([[1., 2.],
            [1., 2.]])
    """
    return _conv_transpose(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """The adjoint of conv3d: it maps back from the output's size. weight: (channel, output / groups, d, h, w).

    >>> ex.conv_transpose3d(ex.tensor([[[[[1.0, 2.0]]]]]), ex.ones(1, 1, 1, 2, 1))[0, 0, 0]
    tensor([[1., 2.],
            [1., 2.]])
    """
    return _conv_transpose(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Tensor:
    """conv or conv_transpose with as many spatial dimensions as the weight has.

    >>> x, w = ex.tensor([[[1.0, 2.0, 4.0]]]), ex.tensor([[[-1.0, 1.0]]])
    >>> ex.convolution(x, w, None, stride=1, padding=0, dilation=1, transposed=False, output_padding=0, groups=1)
    tensor([[[1., 2.]]])
    """
    n = weight.ndim - 2
    if n < 1:
        raise ShapeError(f"convolution: expected a weight with 3 or more dimensions, got shape {tuple(weight.shape)}")
    if transposed:
        return _conv_transpose("convolution", n, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv("convolution", n, input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d on (time, batch, channel) with a weight of (width, channel, output).

    >>> ex.conv_tbc(ex.tensor([[[1.0]], [[2.0]], [[4.0]]]), ex.tensor([[[-1.0]], [[1.0]]]), ex.tensor([0.0])).flatten()
    tensor([1., 2.])
    """
    for name, t in (("input", input), ("weight", weight)):
        if t.ndim != 3:
            raise ShapeError(f"conv_tbc: expected {name} with 3 dimensions, got shape {tuple(t.shape)}")
    y = _conv("conv_tbc", 1, input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad, 1, 1)
    return y.permute(2, 0, 1).contiguous()
