"""Convolutions and their transposes as functions: arguments checked and made uniform, then one primitive.

The primitives and their gradients are in `conv_ops.py`.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..core.wording import counted, input_misfit
from ..dispatch.dispatcher import apply
from ..dispatch.inline_cache import cached_by_types
from ..errors import DtypeError, ShapeError
from .conv_ops import Conv, ConvTranspose, conv_attrs, window_counts
from .conv_ops import convolve as convolve
from .windows import Ints, Pads, as_ints, batched, dilated_size

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
            raise DtypeError(input_misfit(op, x.dtype, name, t.dtype))
    if groups < 1:
        raise ShapeError(f"{op}: groups must be at least 1, got {groups}")
    channels = x.shape[1]
    expected = w.shape[0] if transposed else w.shape[1] * groups
    if channels != expected:
        raise ShapeError(
            f"{op}: input of shape {tuple(x.shape)} has {counted(channels, 'channel')}, weight of shape "
            f"{tuple(w.shape)} with "
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
    (groups,) = as_ints(groups, 1, op, "groups")
    if input.is_nested:
        return _ragged_conv(op, n, input, weight, bias, stride, padding, dilation, groups)
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
    counts = window_counts(tuple(x.shape[2:]), kernel, strides, pads, dilations)
    attrs = conv_attrs(strides, tuple(low for low, _ in pads), dilations, counts, groups)
    y: Tensor = apply(Conv, (x, weight, bias), attrs)
    return y if had_batch else y.squeeze(0)


_conv_by_types = cached_by_types(_conv)


def _ragged_conv(
    op: str,
    n: int,
    input: Any,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints | str,
    dilation: Ints,
    groups: int,
) -> Any:
    """A convolution of each row by itself."""
    from ..ragged_tensors import convolution

    convolution.check_layout(op, input, n)
    _check(op, input, weight, bias, n, groups, transposed=False)
    if n > 1:
        options = (stride, padding, dilation, groups)
        least = max(dilated_size(k, d) for k in weight.shape[2:] for d in as_ints(dilation, n, op, "dilation"))
        return convolution.by_row(op, lambda row: _conv(op, n, row, weight, bias, *options), input, n, least)
    kernel, strides = tuple(weight.shape[2:]), as_ints(stride, 1, op, "stride")
    dilations = as_ints(dilation, 1, op, "dilation")
    (pads,) = _same_padding(op, padding, kernel, strides, dilations)
    return convolution.conv1d(input, weight, bias, strides[0], pads, dilations[0], groups)


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
    (groups,) = as_ints(groups, 1, op, "groups")
    if input.is_nested:
        from ..ragged_tensors.convolution import by_row

        options = (stride, padding, output_padding, groups, dilation)
        return by_row(op, lambda row: _conv_transpose(op, n, row, weight, bias, *options), input, n)
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
    y: Tensor = apply(ConvTranspose, (x, weight, bias), conv_attrs(strides, crops, dilations, sizes, groups))
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
    return _conv_by_types("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


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
    return _conv_by_types("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


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
    return _conv_by_types("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


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
