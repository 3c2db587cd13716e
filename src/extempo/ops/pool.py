"""Pooling: the largest, the mean or a norm of each window, for one to three spatial dimensions.

Averages are the primitive of `averages.py`, those over windows of unequal size (adaptive ones) weighted taps; maxima
are the primitive of `maxima.py`, those at irregular places (adaptive, fractional) gathered first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops
from ..core.tensor import Tensor
from ..core.types import as_int, bool_, check_size, int64, is_sequence
from ..dispatch.dispatcher import apply
from ..dispatch.inline_cache import cached_by_types
from ..errors import DtypeError, ShapeError
from .averages import AvgPool, pool_attrs
from .maxima import MaxPool, Pooled, Unpool, adaptive_windows, combined, fractional_starts, max_over, scatter_back
from .taps import weighted_taps
from .windows import Ints, as_ints, dilated_size

__all__ = [
    "adaptive_avg_pool1d",
    "avg_pool1d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool3d",
]


# ---- shared by the functions


def _sizes(op: str, x: Tensor, n: int) -> tuple[int, ...]:
    if x.ndim not in (n + 1, n + 2):
        raise ShapeError(
            f"{op}: expected {n + 2} dimensions (batch, channel, {n} spatial) or {n + 1} without batch, "
            f"got shape {tuple(x.shape)}"
        )
    sizes = tuple(x.shape[x.ndim - n :])
    if x.dtype is bool_:
        raise DtypeError(f"{op}: expected numbers, got a bool tensor; use x.float()")
    if 0 in sizes:
        raise ShapeError(f"{op}: shape {tuple(x.shape)} has no elements to pool; only the batch may be empty")
    return sizes


def _filled_sizes(op: str, x: Tensor, n: int) -> tuple[int, ...]:
    """`_sizes` of images that also have channels."""
    sizes = _sizes(op, x, n)
    if not x.shape[x.ndim - n - 1]:
        raise ShapeError(f"{op}: shape {tuple(x.shape)} has no channels to pool; only the batch may be empty")
    return sizes


def _window_counts(
    op: str,
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
) -> tuple[int, ...]:
    """How many windows there are; with ceil_mode also one that begins inside and ends outside."""
    counts = []
    for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        span = dilated_size(k, d)
        if 2 * p > span:
            raise ShapeError(
                f"{op}: padding {padding} is more than half of the window's span, kernel {kernel} dilation {dilation}"
            )
        room = size + 2 * p - span
        count = (room + s - 1 if ceil_mode else room) // s + 1
        if ceil_mode and (count - 1) * s >= size + p:
            count -= 1  # the last window would see nothing but padding
        if room < 0 and count < 1:
            raise ShapeError(
                f"{op}: a window that spans {span} does not fit into size {size} with padding {p}; "
                "use a smaller kernel, more padding, or pool less often before"
            )
        counts.append(count)
    return tuple(counts)


def _strides(op: str, stride: Any, kernel: tuple[int, ...]) -> tuple[int, ...]:
    if stride is None or (is_sequence(stride) and not len(stride)):
        return kernel
    return as_ints(stride, len(kernel), op, "stride")


def _by_row(op: str, x: Any, n: int, pool: Callable[[Tensor], Any], output_size: Any = (None,)) -> Any:
    """A pooling of each row of a ragged tensor; one with an output size makes all rows equal."""
    from ..ragged_tensors.convolution import pooled_by_row

    return pooled_by_row(op, pool, x, n, output_size)


# ---- maxima


def _max_pool(
    op: str, n: int, x: Tensor, kernel_size: Ints, stride: Ints | None, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Pooled:
    if x.is_nested:
        options = (kernel_size, stride, padding, dilation, ceil_mode)
        return _by_row(op, x, n, lambda row: _max_pool(op, n, row, *options))
    sizes = _filled_sizes(op, x, n)
    kernel = as_ints(kernel_size, n, op, "kernel_size")
    attrs: dict[str, Any] = {
        "kernel": kernel,
        "stride": _strides(op, stride, kernel),
        "padding": as_ints(padding, n, op, "padding", 0),
        "dilation": as_ints(dilation, n, op, "dilation"),
    }
    counts = _window_counts(op, sizes, **attrs, ceil_mode=ceil_mode)
    return apply(MaxPool, (x,), {**attrs, "counts": counts})


def _max_pool_values(*args: Any) -> Tensor:
    return _max_pool(*args)[0]


_max_pool_by_types, _max_pool_values_by_types = cached_by_types(_max_pool), cached_by_types(_max_pool_values)


def _max_pooler(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """max_pool{n}d and max_pool{n}d_with_indices."""
    op = f"max_pool{n}d"

    def with_indices(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = True,
    ) -> Pooled:
        return _max_pool_by_types(op, n, input, kernel_size, stride, padding, dilation, ceil_mode)

    def pool(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Tensor | Pooled:
        run = _max_pool_by_types if return_indices else _max_pool_values_by_types
        return run(op, n, input, kernel_size, stride, padding, dilation, ceil_mode)

    text = f"The largest element of each {n}-dimensional window"
    return _named(
        pool, op, f"{text}; with return_indices also where it lies.{_example(n, f'F.{op}(x, 2)', '.')}"
    ), _named(
        with_indices,
        f"{op}_with_indices",
        f"{text}, and where it lies in the flattened spatial dimensions."
        f"{_example(n, f'F.{op}_with_indices(x, 2)[1]', '')}",
    )


def _example(n: int, call: str, point: str) -> str:
    """The example of a docstring: the largest elements of two windows of size 2, or the places where they lie."""
    size = 2 ** (n + 1)
    shape = (1, *[2] * (n - 1), 4)
    found = f"tensor([{size - 3}{point}, {size - 1}{point}])"
    return f"\n\n>>> x = ex.arange({size}.0).view{shape}\n>>> {call}.flatten()\n{found}"


def _named(fn: Any, name: str, text: str) -> Any:
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = text
    return fn


max_pool1d, max_pool1d_with_indices = _max_pooler(1)
max_pool2d, max_pool2d_with_indices = _max_pooler(2)
max_pool3d, max_pool3d_with_indices = _max_pooler(3)


def max_pool2d_with_indices_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Ints,
    stride: Ints | None,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """The gradient of max_pool2d's input, from that of its result and the indices it returned."""
    # It is locally constant in `self`, yet part of the graph, as PyTorch has it.
    return scatter_back(grad_output, indices, tuple(self.shape[-2:])) + ops.zero(self)


def _adaptive_sizes(op: str, output_size: Any, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The output size; None keeps a dimension as it is."""
    wanted = tuple(output_size) if is_sequence(output_size) else (output_size,) * len(sizes)
    if len(wanted) == 1:
        wanted *= len(sizes)
    if len(wanted) != len(sizes):
        raise ShapeError(f"{op}: output_size must be one int or {len(sizes)}, got {output_size!r}")
    return as_ints(
        [s if w is None else w for w, s in zip(wanted, sizes, strict=True)], len(sizes), op, "output_size", 0
    )


def _adaptive_max_pool(op: str, n: int, x: Tensor, output_size: Any) -> Pooled:
    if x.is_nested:
        return _by_row(op, x, n, lambda row: _adaptive_max_pool(op, n, row, output_size), output_size)
    sizes = _sizes(op, x, n)
    counts = _adaptive_sizes(op, output_size, sizes)
    check_size(op, counts, 8)
    if all(c and s % c == 0 for s, c in zip(sizes, counts, strict=True)):
        kernel = tuple(s // c for s, c in zip(sizes, counts, strict=True))
        return _max_pool(op, n, x, kernel, kernel, 0, 1, False)
    tables = []
    for size, count in zip(sizes, counts, strict=True):
        starts, lengths = adaptive_windows(size, count)
        # Shorter windows repeat their last element, which changes no maximum.
        offsets = np.minimum(np.arange(lengths.max(initial=1)), lengths[:, None] - 1)
        tables.append(starts[:, None] + offsets)
    return max_over(x, n, combined(tables, sizes))


def _adaptive_max_pooler(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    op = f"adaptive_max_pool{n}d"

    def with_indices(input: Tensor, output_size: Any, return_indices: bool = True) -> Pooled:
        return _adaptive_max_pool(op, n, input, output_size)

    def pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Tensor | Pooled:
        pooled = _adaptive_max_pool(op, n, input, output_size)
        return pooled if return_indices else pooled[0]

    text = "The largest elements of windows that cover the input evenly, as many as output_size says"
    call = f"(x, {(*[1] * (n - 1), 2)})"
    return _named(pool, op, f"{text}; None keeps a size.{_example(n, f'F.{op}{call}', '.')}"), _named(
        with_indices,
        f"{op}_with_indices",
        f"{text}, and where they lie.{_example(n, f'F.{op}_with_indices{call}[1]', '')}",
    )


adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pooler(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pooler(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pooler(3)


def _fractional_max_pool(
    op: str, n: int, x: Tensor, kernel_size: Ints, output_size: Any, output_ratio: Any, random_samples: Tensor | None
) -> Pooled:
    sizes = _sizes(op, x, n)
    kernel = as_ints(kernel_size, n, op, "kernel_size")
    if (output_size is None) == (output_ratio is None):
        raise ShapeError(f"{op}: give output_size or output_ratio, one of both")
    if output_size is None:
        ratios = tuple(output_ratio) if is_sequence(output_ratio) else (output_ratio,) * n
        if len(ratios) != n or not all(0 < r < 1 for r in ratios):
            raise ShapeError(f"{op}: output_ratio must be one number or {n} between 0 and 1, got {output_ratio!r}")
        output_size = [int(s * r) for s, r in zip(sizes, ratios, strict=True)]
    counts = as_ints(output_size, n, op, "output_size")
    for size, k, count in zip(sizes, kernel, counts, strict=True):
        if count + k - 1 > size:
            raise ShapeError(
                f"{op}: {count} windows of {k} do not fit into size {size}, which must be at least {count + k - 1}"
            )
    lead = tuple(x.shape[: x.ndim - n])
    n_batch = lead[0] if len(lead) == 2 else 1
    if random_samples is None:
        random_samples = ops.rand(n_batch, lead[-1], n, dtype=x.dtype)
    elif random_samples.shape[0] < n_batch or tuple(random_samples.shape[1:]) != (lead[-1], n):
        raise ShapeError(
            f"{op}: expected _random_samples of shape {(n_batch, lead[-1], n)}, got {tuple(random_samples.shape)}"
        )
    draws = random_samples[:n_batch].detach().numpy().reshape(*lead, n)
    # PyTorch draws the width first in two dimensions, and the depth first in three.
    order = (1, 0) if n == 2 else tuple(range(n))
    tables = [
        fractional_starts(draws[..., axis], size, k, count)[..., None] + np.arange(k)
        for axis, size, k, count in zip(order, sizes, kernel, counts, strict=True)
    ]
    return max_over(x, n, combined(tables, sizes))


def _fractional_max_pooler(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    op = f"fractional_max_pool{n}d"

    def with_indices(
        input: Tensor,
        kernel_size: Ints,
        output_size: Ints | None = None,
        output_ratio: Any = None,
        return_indices: bool = True,
        _random_samples: Tensor | None = None,
    ) -> Pooled:
        return _fractional_max_pool(op, n, input, kernel_size, output_size, output_ratio, _random_samples)

    def pool(
        input: Tensor,
        kernel_size: Ints,
        output_size: Ints | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Tensor | Pooled:
        pooled = _fractional_max_pool(op, n, input, kernel_size, output_size, output_ratio, _random_samples)
        return pooled if return_indices else pooled[0]

    text = "The largest elements of windows whose steps are drawn at random, to shrink by fractions (Graham 2014)"
    call = f"(ex.rand{(1, *[8] * n)}, 2, output_ratio=0.7)"
    shape = f".shape\nextempo.Size({[1, *[5] * n]})"
    return _named(pool, op, f"{text}.\n\n>>> F.{op}{call}{shape}"), _named(
        with_indices,
        f"{op}_with_indices",
        f"{text}, and where they lie.\n\n>>> F.{op}_with_indices{call}[1]{shape}",
    )


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional_max_pooler(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional_max_pooler(3)


def _max_unpool(
    op: str, n: int, x: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints | None, padding: Ints, output_size: Any
) -> Tensor:
    sizes = _sizes(op, x, n)
    if indices.shape != x.shape or indices.dtype is not int64:
        raise ShapeError(
            f"{op}: expected int64 indices of shape {tuple(x.shape)}, got {indices.dtype} of {tuple(indices.shape)}; "
            "pass what max_pool with return_indices=True gave"
        )
    kernel = as_ints(kernel_size, n, op, "kernel_size")
    steps, pads = _strides(op, stride, kernel), as_ints(padding, n, op, "padding", 0)
    usual = tuple((s - 1) * step + k - 2 * p for s, step, k, p in zip(sizes, steps, kernel, pads, strict=True))
    wanted = usual
    if output_size is not None:
        given = tuple(as_int(size, op, "output_size") for size in output_size)
        wanted = given[-n:]
        if len(given) not in (n, n + 1, n + 2):
            raise ShapeError(f"{op}: output_size must have {n} sizes, got {given}")
        for size, expected, step in zip(wanted, usual, steps, strict=True):
            if not expected - step < size < expected + step:
                raise ShapeError(f"{op}: output_size {wanted} is too far from {usual}, which these windows come from")
    lead = tuple(x.shape[: x.ndim - n])
    flat = (*lead, math.prod(sizes))
    y = apply(Unpool, (x.reshape(flat), indices.reshape(flat)), {"size": math.prod(wanted)})
    return y.reshape(*lead, *wanted)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Any = None,
) -> Tensor:
    """Zeros, with each element put back where max_pool1d found it.

    >>> y, where = F.max_pool1d(ex.tensor([[1.0, 3.0, 7.0, 5.0]]), 2, return_indices=True)
    >>> F.max_unpool1d(y, where, 2)
    tensor([[0., 3., 7., 0.]])
    """
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Any = None,
) -> Tensor:
    """Zeros, with each element put back where max_pool2d found it.

    >>> y, where = F.max_pool2d(ex.tensor([[[1.0, 3.0], [7.0, 5.0]]]), 2, return_indices=True)
    >>> F.max_unpool2d(y, where, 2)[0]
    tensor([[0., 0.],
            [7., 0.]])
    """
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Any = None,
) -> Tensor:
    """Zeros, with each element put back where max_pool3d found it.

    >>> y, where = F.max_pool3d(ex.tensor([[[[1.0, 3.0], [7.0, 5.0]]]]), (1, 2, 2), return_indices=True)
    >>> F.max_unpool3d(y, where, (1, 2, 2))[0, 0]
    tensor([[0., 0.],
            [7., 0.]])
    """
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


# ---- averages


def _avg_pool(
    op: str,
    n: int,
    x: Tensor,
    kernel_size: Ints,
    stride: Ints | None,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    if x.is_nested:
        options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return _by_row(op, x, n, lambda row: _avg_pool(op, n, row, *options))
    sizes = _filled_sizes(op, x, n)
    kernel = as_ints(kernel_size, n, op, "kernel_size")
    steps, pads = _strides(op, stride, kernel), as_ints(padding, n, op, "padding", 0)
    counts = _window_counts(op, sizes, kernel, steps, pads, (1,) * n, ceil_mode)
    if divisor_override == 0:
        raise ShapeError(f"{op}: divisor_override must not be 0")
    attrs = pool_attrs(kernel, steps, pads, count_include_pad, counts=counts)
    mean: Tensor = apply(AvgPool, (x, divisor_override), attrs)
    return mean


def avg_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window. input: (batch, channel, length).

    >>> ex.avg_pool1d(ex.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    return _avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The mean of each window. input: (batch, channel, height, width).

    >>> F.avg_pool2d(ex.arange(8.0).view(1, 2, 4), 2).flatten()
    tensor([2.5000, 4.5000])
    """
    result = _avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
    return ops.deliver(result, out)


def avg_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The mean of each window. input: (batch, channel, depth, height, width).

    >>> F.avg_pool3d(ex.arange(16.0).view(1, 2, 2, 4), 2).flatten()
    tensor([6.5000, 8.5000])
    """
    result = _avg_pool(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
    return ops.deliver(result, out)


def _adaptive_avg_pool(op: str, n: int, x: Tensor, output_size: Any) -> Tensor:
    if x.is_nested:
        return _by_row(op, x, n, lambda row: _adaptive_avg_pool(op, n, row, output_size), output_size)
    sizes = _sizes(op, x, n)
    counts = _adaptive_sizes(op, output_size, sizes)
    check_size(op, counts, 8)
    if not x.dtype.is_floating_point:
        raise DtypeError(f"{op}: the mean of {x.dtype} is not an integer; use x.float()")
    if all(c == 1 for c in counts):
        return x.mean(tuple(range(x.ndim - n, x.ndim)), keepdim=True)
    if all(c and s % c == 0 for s, c in zip(sizes, counts, strict=True)):
        kernel = tuple(s // c for s, c in zip(sizes, counts, strict=True))
        return _avg_pool(op, n, x, kernel, kernel, 0, False, True, None)
    for dim, (size, count) in enumerate(zip(sizes, counts, strict=True), x.ndim - n):
        starts, lengths = adaptive_windows(size, count)
        offsets = np.arange(lengths.max(initial=1))
        positions = np.minimum(starts[:, None] + offsets, size - 1)
        weights = np.where(offsets < lengths[:, None], 1 / np.maximum(lengths, 1)[:, None], 0.0)
        x = weighted_taps(x, dim, positions, weights)
    return x


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The means of `output_size` windows that cover the length evenly.

    >>> ex.adaptive_avg_pool1d(ex.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    return _adaptive_avg_pool("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The means of windows that cover the image evenly, as many as output_size says; None keeps a size.

    >>> F.adaptive_avg_pool2d(ex.arange(8.0).view(1, 2, 4), (1, 2)).flatten()
    tensor([2.5000, 4.5000])
    """
    return _adaptive_avg_pool("adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """The means of windows that cover the volume evenly, as many as output_size says; None keeps a size.

    >>> F.adaptive_avg_pool3d(ex.arange(16.0).view(1, 2, 2, 4), (1, 1, 2)).flatten()
    tensor([6.5000, 8.5000])
    """
    return _adaptive_avg_pool("adaptive_avg_pool3d", 3, input, output_size)


# ---- norms


def _lp_pool(
    op: str, n: int, x: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None, ceil_mode: bool
) -> Tensor:
    if math.isinf(norm_type):
        largest = _max_pool(op, n, x.abs() if norm_type > 0 else -x.abs(), kernel_size, stride, 0, 1, ceil_mode)[0]
        return largest if norm_type > 0 else -largest
    kernel = as_ints(kernel_size, n, op, "kernel_size")
    mean = _avg_pool(op, n, x.pow(norm_type), kernel, stride, 0, ceil_mode, True, None)
    # A sum of odd powers may be negative, and stays so. relu stops the gradient where it is 0: the root's is infinite.
    return (ops.sign(mean) * ops.relu(mean.abs()) * math.prod(kernel)).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window (without absolute values, as in PyTorch).

    >>> F.lp_pool1d(ex.tensor([[3.0, 4.0, 5.0, 12.0]]), 2.0, 2)
    tensor([[ 5., 13.]])
    """
    return _lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window (without absolute values, as in PyTorch).

    >>> F.lp_pool2d(ex.tensor([[[3.0, 0.0], [0.0, 4.0]]]), 2.0, 2)
    tensor([[[5.]]])
    """
    return _lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window (without absolute values, as in PyTorch).

    >>> F.lp_pool3d(ex.tensor([[[[3.0, 0.0], [0.0, 4.0]]]]), 2.0, (1, 2, 2))
    tensor([[[[5.]]]])
    """
    return _lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)
