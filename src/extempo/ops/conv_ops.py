"""The primitives of convolution, for any number of spatial dimensions: three linear maps, closed under differentiation.

    Conv            y[n, o, p] = sum over c, k of w[o, c, k] * x[n, c, p * stride - padding + k * dilation] + bias[o]
    ConvTranspose   its adjoint in x: x[n, o, p] * w[o, c, k] is added to y[n, c, p * stride - padding + k * dilation]
    ConvWeightGrad  its adjoint in w, and in the bias

What lies outside of x counts as zero. `padding` is what stands in front; how much is needed behind follows from the
size of the result, which is an attribute, so that no size is lost by rounding. The gradients of each are the other
two. With `groups` the channels of x and of the result fall into groups that do not see each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, bool_
from ..core.wording import input_misfit
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError
from .conv_kernels import Sizes, grouped
from .reduce import widened
from .windows import Pads, n_windows


def _check(op: str, x: TensorType, w: TensorType, channels: int, rows: int, groups: int) -> None:
    if x.dtype is not w.dtype:
        raise DtypeError(input_misfit(op, x.dtype, "weight", w.dtype))
    if x.dtype is bool_:
        raise DtypeError(f"{op}: expected numbers, got bool tensors; use x.float()")
    if x.shape[1] != channels or rows % groups:
        raise ShapeError(f"{op}: {x.shape} and {w.shape} do not fit together in {groups} groups")


def _by_group(x: Array, groups: int) -> Array:
    """(batch, group * channel, ...) as (group, batch, channel, ...)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]).swapaxes(0, 1)


def _with_bias(y: Array, bias: Array | None, dtype: Any) -> Array:
    """(batch, group, output, ...) as (batch, group * output, ...), plus the bias."""
    y = y.reshape(y.shape[0], y.shape[1] * y.shape[2], *y.shape[3:])
    if bias is not None:
        y += bias.reshape(-1, *(1,) * (y.ndim - 2))
    return y.astype(dtype, copy=False)


def _side_by_side(size: int, x: Tensor) -> Tensor:
    """(size, batch, channel, ...) as (batch, size * channel, ...): one group more per sample."""
    x = x.transpose(0, 1)
    return x.reshape(x.shape[0], size * x.shape[2], *x.shape[3:])


def _batched_conv(
    op: type[Op], size: int, x: Tensor, w: Tensor, bias: Tensor | None, groups: int, attrs: dict[str, Any]
) -> Tensor:
    """A batch of kernels is a grouped convolution."""
    w = w.reshape(size * w.shape[1], *w.shape[2:])
    flat = None if bias is None else bias.reshape(size * bias.shape[1])
    y: Tensor = apply(op, (_side_by_side(size, x), w, flat), {**attrs, "groups": groups * size})
    return y.reshape(y.shape[0], size, y.shape[1] // size, *y.shape[2:]).transpose(0, 1)


def _sum_per_channel(g: Tensor) -> Tensor:
    return g.sum((0, *range(2, g.ndim)))


class Conv(Op):
    """Sums of products over sliding windows. x: (batch, channel, *spatial), w: (output, channel / groups, *kernel)."""

    family = "contraction"
    saves = ("w", "x", "")
    lower = Routine("conv")
    ragged = Refuse("its function takes the windows of each row, or runs row by row")

    @staticmethod
    def infer(
        x: TensorType, w: TensorType, bias: TensorType | None, *, groups: int, counts: Sizes, **attrs: Any
    ) -> TensorType:
        _check("conv", x, w, w.shape[1] * groups, w.shape[0], groups)
        return TensorType((x.shape[0], w.shape[0], *counts), x.dtype)

    @staticmethod
    def numpy(
        x: Array,
        w: Array,
        bias: Array | None,
        *,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        groups: int,
        counts: Sizes,
    ) -> Array:
        x_wide, w_wide = widened(x, w)
        y = grouped(
            _by_group(x_wide, groups),
            w_wide.reshape(groups, w.shape[0] // groups, *w.shape[1:]),
            stride=stride,
            lows=padding,
            dilation=dilation,
            input_dilation=(1,) * len(counts),
            counts=counts,
        )
        return _with_bias(y, bias, x.dtype)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, w: Any, bias: Any, *, counts: Sizes, **attrs: Any) -> tuple[Any, ...]:
        both: list[Tensor] = []

        def into_x() -> Tensor:
            return apply(ConvTranspose, (g, w, None), {**attrs, "counts": tuple(x.shape[2:])})

        def into_w() -> Tensor:
            both.extend(apply(ConvWeightGrad, (x, g), {**attrs, "kernel": tuple(w.shape[2:])}))
            return both[0]

        def into_bias() -> Tensor:
            # The pass over g that the weight's gradient takes gives it too; where that is not wanted, x was not kept.
            return both[1] if both else _sum_per_channel(g)

        return into_x, into_w, into_bias

    @staticmethod
    def batch(size: int, x: Tensor, w: Tensor, bias: Tensor | None, *, groups: int, **attrs: Any) -> Tensor:
        return _batched_conv(Conv, size, x, w, bias, groups, attrs)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        def draw(*shape: int) -> Array:
            return rng.normal(size=shape)

        yield Sample(draw(2, 3, 7), draw(4, 3, 3), draw(4), **conv_attrs((1,), (1,), (1,), (7,)))
        yield Sample(draw(2, 2, 5, 6), draw(3, 2, 3, 2), None, **conv_attrs((2, 1), (1, -1), (1, 2), (2, 5)))
        yield Sample(draw(2, 4, 5), draw(6, 2, 2), draw(6), **conv_attrs((2,), (1,), (1,), (3,), 2))
        yield Sample(draw(2, 3, 4), draw(3, 1, 3), None, **conv_attrs((1,), (0,), (1,), (2,), 3))
        yield Sample(draw(1, 2, 3), draw(2, 2, 2), draw(2), **conv_attrs((3,), (2,), (2,), (3,)))
        yield Sample(
            draw(1, 2, 3, 3, 3), draw(2, 2, 2, 2, 2), None, **conv_attrs((1, 1, 1), (0,) * 3, (1, 1, 1), (2, 2, 2))
        )
        yield Sample(draw(0, 2, 4), draw(3, 2, 2), None, **conv_attrs((1,), (0,), (1,), (3,)))

    @staticmethod
    def onnx(
        b: Any, x: Any, w: Any, bias: Any, *, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, counts: Sizes
    ) -> Any:
        x, pads = b.window_pads(x, w.shape[2:], stride, padding, dilation, counts, 0.0)
        return b.Conv(x, w, bias, strides=stride, pads=pads, dilations=dilation, group=groups)


class ConvTranspose(Op):
    """The adjoint of Conv in its input. x: (batch, channel, *spatial), w: (channel, output / groups, *kernel)."""

    family = "contraction"
    saves = ("w", "x", "")
    lower = Routine("conv_transpose")
    ragged = Refuse("its function takes the windows of each row, or runs row by row")

    @staticmethod
    def infer(
        x: TensorType, w: TensorType, bias: TensorType | None, *, groups: int, counts: Sizes, **attrs: Any
    ) -> TensorType:
        _check("conv_transpose", x, w, w.shape[0], w.shape[0], groups)
        return TensorType((x.shape[0], w.shape[1] * groups, *counts), x.dtype)

    @staticmethod
    def numpy(
        x: Array,
        w: Array,
        bias: Array | None,
        *,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        groups: int,
        counts: Sizes,
    ) -> Array:
        x_wide, w_wide = widened(x, w)
        backwards: Any = (..., *(slice(None, None, -1),) * len(counts))
        exchanged = w_wide.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
        y = grouped(
            _by_group(x_wide, groups),
            exchanged[backwards],
            stride=(1,) * len(counts),
            lows=tuple((k - 1) * d - p for k, d, p in zip(w.shape[2:], dilation, padding, strict=True)),
            dilation=dilation,
            input_dilation=stride,
            counts=counts,
        )
        return _with_bias(y, bias, x.dtype)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, w: Any, bias: Any, *, counts: Sizes, **attrs: Any) -> tuple[Any, ...]:
        def into_x() -> Tensor:
            return apply(Conv, (g, w, None), {**attrs, "counts": tuple(x.shape[2:])})

        def into_w() -> Any:
            return apply(ConvWeightGrad, (g, x), {**attrs, "kernel": tuple(w.shape[2:])})[0]

        return into_x, into_w, lambda: _sum_per_channel(g)

    @staticmethod
    def batch(size: int, x: Tensor, w: Tensor, bias: Tensor | None, *, groups: int, **attrs: Any) -> Tensor:
        return _batched_conv(ConvTranspose, size, x, w, bias, groups, attrs)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        def draw(*shape: int) -> Array:
            return rng.normal(size=shape)

        yield Sample(draw(2, 3, 4), draw(3, 2, 3), draw(2), **conv_attrs((1,), (0,), (1,), (6,)))
        yield Sample(draw(2, 4, 3), draw(4, 1, 2), draw(2), **conv_attrs((3,), (1,), (2,), (9,), 2))
        yield Sample(draw(2, 2, 2, 3), draw(2, 3, 3, 2), None, **conv_attrs((2, 1), (1, -1), (1, 2), (4, 6)))
        yield Sample(draw(1, 1, 2), draw(1, 1, 1), draw(1), **conv_attrs((3,), (0,), (1,), (5,)))
        yield Sample(draw(0, 2, 4), draw(2, 3, 2), None, **conv_attrs((1,), (0,), (1,), (5,)))

    @staticmethod
    def onnx(
        b: Any, x: Any, w: Any, bias: Any, *, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, counts: Sizes
    ) -> Any:
        y = b.ConvTranspose(x, w, strides=stride, dilations=dilation, group=groups)
        ends = []
        for d, (s, p, dil, n) in enumerate(zip(stride, padding, dilation, counts, strict=True)):
            full = b.plus(b.times(b.plus(x.shape[2 + d], -1), s), (w.shape[2 + d] - 1) * dil + 1)
            ends.append(b.plus(b.plus(n, p), b.times(full, -1)))
        if any(p != 0 for p in (*padding, *ends)):  # what is cut off, or lies beyond
            y = b.Pad(y, [0, 0, *(-p for p in padding), 0, 0, *ends])
        return y if bias is None else b.Add(y, b.reshape(bias, (1, -1, *(1,) * len(counts))))


class ConvWeightGrad(Op):
    """The adjoints of Conv in its weight and its bias. x: (batch, channel, *spatial), g: (batch, output, *counts)."""

    family = "contraction"
    materialize = False
    saves = ("g", "x")
    lower = Routine("conv_weight_grad")
    ragged = IN_GRADIENTS_ONLY

    @staticmethod
    def infer(
        x: TensorType, g: TensorType, *, groups: int, kernel: Sizes, **attrs: Any
    ) -> tuple[TensorType, TensorType]:
        _check("conv_weight_grad", x, g, x.shape[1] // groups * groups, g.shape[1], groups)
        w = TensorType((g.shape[1], x.shape[1] // groups, *kernel), x.dtype)
        return w, TensorType((g.shape[1],), x.dtype)

    @staticmethod
    def numpy(
        x: Array, g: Array, *, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, kernel: Sizes
    ) -> tuple[Array, Array]:
        x_wide, g_wide = widened(x, g)
        # x scanned by g: samples and channels change places, and so do stride and dilation.
        w = grouped(
            _by_group(x_wide, groups).swapaxes(1, 2),
            _by_group(g_wide, groups).swapaxes(1, 2),
            stride=dilation,
            lows=padding,
            dilation=stride,
            input_dilation=(1,) * len(kernel),
            counts=kernel,
        )
        w = w.reshape(w.shape[0], g.shape[1], *kernel).swapaxes(0, 1)
        bias = g_wide.sum((0, *range(2, g.ndim)), dtype=g_wide.dtype)
        return np.ascontiguousarray(w, x.dtype), bias.astype(x.dtype, copy=False)

    @staticmethod
    def vjp(h: Any, y: Any, x: Any, g: Any, *, kernel: Sizes, **attrs: Any) -> tuple[Any, ...]:
        into_weight, into_bias = h

        def into_x() -> Tensor | None:
            if into_weight is None:
                return None
            return apply(ConvTranspose, (g, into_weight, None), {**attrs, "counts": tuple(x.shape[2:])})

        def into_g() -> Tensor:
            if into_weight is None:
                spread: Tensor = into_bias.reshape(-1, *(1,) * len(kernel)).expand(g.shape)
                return spread
            return apply(Conv, (x, into_weight, into_bias), {**attrs, "counts": tuple(g.shape[2:])})

        return into_x, into_g

    @staticmethod
    def batch(size: int, x: Tensor, g: Tensor, *, groups: int, **attrs: Any) -> tuple[Tensor, Tensor]:
        inputs = (_side_by_side(size, x), _side_by_side(size, g))
        w, bias = apply(ConvWeightGrad, inputs, {**attrs, "groups": groups * size})
        n_outputs = g.shape[2]
        return w.reshape(size, n_outputs, *w.shape[1:]), bias.reshape(size, n_outputs)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        def draw(*shape: int) -> Array:
            return rng.normal(size=shape)

        def attrs(stride: Sizes, padding: Sizes, dilation: Sizes, kernel: Sizes, groups: int = 1) -> dict[str, Any]:
            out = conv_attrs(stride, padding, dilation, (), groups)
            del out["counts"]
            return {**out, "kernel": kernel}

        yield Sample(draw(2, 3, 7), draw(2, 4, 7), **attrs((1,), (1,), (1,), (3,)))
        yield Sample(draw(2, 2, 5, 6), draw(2, 3, 2, 5), **attrs((2, 1), (1, -1), (1, 2), (3, 2)))
        yield Sample(draw(2, 4, 5), draw(2, 6, 3), **attrs((2,), (1,), (1,), (2,), 2))
        yield Sample(draw(2, 3, 4), draw(2, 3, 2), **attrs((1,), (0,), (1,), (3,), 3))
        yield Sample(draw(0, 2, 4), draw(0, 3, 3), **attrs((1,), (0,), (1,), (2,)))

    onnx = GRADIENTS_ONLY


def conv_attrs(stride: Sizes, padding: Sizes, dilation: Sizes, counts: Sizes, groups: int = 1) -> dict[str, Any]:
    """The attributes of Conv and ConvTranspose; `counts` are the spatial sizes of the result."""
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "counts": counts}


def convolve(x: Tensor, w: Tensor, *, stride: Sizes, padding: Pads) -> Tensor:
    """The plain form of the primitive, for the use of other ops."""
    ones = (1,) * len(stride)
    counts = window_counts(tuple(x.shape[2:]), tuple(w.shape[2:]), stride, padding, ones)
    y: Tensor = apply(Conv, (x, w, None), conv_attrs(stride, tuple(low for low, _ in padding), ones, counts))
    return y


def window_counts(sizes: Sizes, kernel: Sizes, stride: Sizes, pads: Pads, dilation: Sizes) -> Sizes:
    """How many windows fit into each padded size."""
    return tuple(
        n_windows(size + low + high, k, s, d)
        for size, k, s, (low, high), d in zip(sizes, kernel, stride, pads, dilation, strict=True)
    )
