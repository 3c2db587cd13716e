"""Whole numbers that stand for floats: QuantizeLinear, DequantizeLinear and the products of quantised tensors."""

from __future__ import annotations

from ... import ops
from ...core.tensor import Tensor
from ...core.types import dtype, float32, float64, iinfo, int32, uint8
from ...errors import ArgumentError, ShapeError
from .convolutions import conv
from .sizes import axis_in
from .table import Dtype, Fixed, Ints, operator


def _spread(t: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """A scale or zero point of one for all, one for each place of an axis, or one for each block along it."""
    if t.numel() == 1 and not block_size:
        return t.reshape(())
    dim = axis_in(axis, x.ndim)
    if block_size:
        if block_size < 0 or t.ndim != x.ndim or t.shape[dim] != -(-x.shape[dim] // block_size):
            raise ShapeError(
                f"blocks of {block_size} along axis {dim} of shape {tuple(x.shape)} do not fit scales of shape "
                f"{tuple(t.shape)}"
            )
        return t.repeat_interleave(block_size, dim).narrow(dim, 0, x.shape[dim])
    return t.reshape([-1 if i == dim else 1 for i in range(x.ndim)])


def _saturated(x: Tensor, to: dtype) -> Tensor:
    return ops.clamp(x, iinfo(to).min, iinfo(to).max).to(to)


@operator("QuantizeLinear")
def quantize_linear(
    x: Tensor, scale: Fixed, zero_point: Fixed | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: Dtype | None = None, precision: int = 0, saturate: int = 1,
) -> Tensor:  # fmt: skip
    to = zero_point.dtype if zero_point is not None else output_dtype or uint8
    if to.is_floating_point:
        raise ArgumentError(f"the zero point must be of whole numbers, got {to}")
    y = ops.round(x.to(float32) / _spread(scale.to(float32), x, axis, block_size))
    if zero_point is not None:
        y = y + _spread(zero_point.to(float32), x, axis, block_size)
    return _saturated(y, to)


@operator("DequantizeLinear")
def dequantize_linear(
    x: Tensor, scale: Tensor, zero_point: Fixed | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: Dtype | None = None,
) -> Tensor:  # fmt: skip
    y = x.to(scale.dtype)
    if zero_point is not None:
        y = y - _spread(zero_point.to(scale.dtype), x, axis, block_size)
    y = y * _spread(scale, x, axis, block_size)
    return y.to(output_dtype or y.dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, ...]:
    """To uint8, by the range of the values themselves, which is made to hold 0."""
    zero = ops.zeros((), dtype=x.dtype)
    low, high = ops.minimum(x.amin(), zero), ops.maximum(x.amax(), zero)
    scale = (high - low) / 255
    point = ops.round(ops.clamp(-low / scale, 0, 255))
    return _saturated(ops.round(x / scale) + point, uint8), scale, point.to(uint8)


def _centred(x: Tensor, zero_point: Tensor | None, by_row: bool = False) -> Tensor:
    """The numbers less their zero point, in a type that holds their products exactly."""
    wide = x.to(float64)
    if zero_point is None:
        return wide
    point = zero_point.to(float64)
    return wide - (point.unsqueeze(-1) if by_row and point.ndim == 1 and point.numel() > 1 else point)


@operator("MatMulInteger")
def mat_mul_integer(
    a: Tensor, b: Tensor, a_zero_point: Fixed | None = None, b_zero_point: Fixed | None = None
) -> Tensor:
    return ops.matmul(_centred(a, a_zero_point, True), _centred(b, b_zero_point)).to(int32)


@operator("QLinearMatMul")
def q_linear_mat_mul(
    a: Tensor, a_scale: Fixed, a_zero_point: Fixed, b: Tensor, b_scale: Fixed, b_zero_point: Fixed, y_scale: Fixed,
    y_zero_point: Fixed,
) -> Tensor:  # fmt: skip
    product = ops.matmul(_centred(a, a_zero_point, True), _centred(b, b_zero_point))
    scale = a_scale.to(float64) * b_scale.to(float64) / y_scale.to(float64)
    return _saturated(ops.round(product * scale) + y_zero_point.to(float64), y_zero_point.dtype)


def _by_filter(t: Tensor, w: Tensor) -> Tensor:
    return t.reshape(-1, *[1] * (w.ndim - 1)) if t.numel() > 1 else t.reshape(())


@operator("ConvInteger")
def conv_integer(
    x: Tensor, w: Tensor, x_zero_point: Fixed | None = None, w_zero_point: Fixed | None = None, *,
    auto_pad: str = "NOTSET", dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    point = None if w_zero_point is None else _by_filter(w_zero_point, w)
    y = conv(
        _centred(x, x_zero_point), _centred(w, point), auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    assert isinstance(y, Tensor)
    return y.to(int32)


@operator("QLinearConv")
def q_linear_conv(
    x: Tensor, x_scale: Fixed, x_zero_point: Fixed, w: Tensor, w_scale: Fixed, w_zero_point: Fixed, y_scale: Fixed,
    y_zero_point: Fixed, b: Tensor | None = None, *, auto_pad: str = "NOTSET", dilations: Ints | None = None,
    group: int = 1, kernel_shape: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    y = conv(
        _centred(x, x_zero_point), _centred(w, _by_filter(w_zero_point, w)), None if b is None else b.to(float64),
        auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    assert isinstance(y, Tensor)
    scale = x_scale.to(float64) * w_scale.to(float64) / y_scale.to(float64)
    by_channel = scale.reshape(-1, *[1] * (x.ndim - 2)) if scale.numel() > 1 else scale.reshape(())
    return _saturated(ops.round(y * by_channel) + y_zero_point.to(float64), y_zero_point.dtype)
