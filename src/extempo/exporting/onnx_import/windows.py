"""Where windows of convolutions and pools lie: kernel, stride, dilation and padding, `auto_pad` resolved to numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from .arranging import pad_constant
from .sizes import check_size, same_length


class WindowOptions(NamedTuple):
    """One entry for each spatial dimension."""

    kernel: list[int]
    stride: list[int]
    dilation: list[int]
    before: list[int]
    after: list[int]

    @property
    def extent(self) -> list[int]:
        """What a window spans, gaps included."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]

    def padded(self, x: Tensor, value: float = 0.0, more: Sequence[int] | None = None) -> Tensor:
        """The input with its padding, and `more` of it at the end of each dimension."""
        extra = more or [0] * len(self.kernel)
        sides = zip(self.before, self.after, extra, strict=True)
        return pad_constant(x, {2 + i: (b, a + e) for i, (b, a, e) in enumerate(sides)}, value)


def spatial(x: Tensor) -> list[int]:
    """The sizes behind batch and channels."""
    if x.ndim < 3:
        raise ShapeError(f"expected (batch, channels, sizes ...), got shape {tuple(x.shape)}")
    return list(x.shape[2:])


def windows_of(
    sizes: Sequence[int], kernel: Sequence[int], auto_pad: str, pads: Sequence[int] | None,
    strides: Sequence[int] | None, dilations: Sequence[int] | None,
) -> WindowOptions:  # fmt: skip
    """The windows of a node, its lists checked."""
    n = len(sizes)
    stride, dilation = list(strides or [1] * n), list(dilations or [1] * n)
    for what, values in (("kernel_shape", kernel), ("strides", stride), ("dilations", dilation)):
        same_length(what, values, n)
        if any(v < 1 for v in values):
            raise ArgumentError(f"{what} must be positive, got {list(values)}")
    before, after = [0] * n, [0] * n
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        for i, (size, k, s, d) in enumerate(zip(sizes, kernel, stride, dilation, strict=True)):
            total = max(0, (-(-size // s) - 1) * s + d * (k - 1) + 1 - size)
            less = total // 2
            before[i], after[i] = (less, total - less) if auto_pad == "SAME_UPPER" else (total - less, less)
    elif auto_pad == "NOTSET":
        given = list(pads or [0] * (2 * n))
        same_length("pads", given, 2 * n)
        before, after = given[:n], given[n:]
        if any(p < 0 for p in given):
            raise ArgumentError(f"pads must not be negative, got {given}")
    elif auto_pad != "VALID":
        raise ArgumentError(f"auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, got {auto_pad!r}")
    check_size([size + b + a for size, b, a in zip(sizes, before, after, strict=True)])
    return WindowOptions(list(kernel), stride, dilation, before, after)


def taps(x: Tensor, at: WindowOptions, counts: Sequence[int]) -> Iterator[Tensor]:
    """For each place in the kernel what `counts` windows over a padded input read there."""
    for offsets in itertools.product(*map(range, at.kernel)):
        index = [
            slice(o * d, o * d + (n - 1) * s + 1, s)
            for o, d, s, n in zip(offsets, at.dilation, at.stride, counts, strict=True)
        ]
        yield x[(slice(None), slice(None), *index)]
