"""Sliding windows over the last dimensions of an array: sizes, padding, strided views. Shared by conv, pool and unfold.

Plain functions of ints and arrays, no ops. `kernel`, `stride`, `dilation`, `padding` are tuples with one entry per
windowed ("spatial") dimension; what comes before those dimensions is carried along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import index
from typing import Any

import numpy as np

from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import is_sequence
from ..errors import DtypeError, ShapeError

Ints = int | Sequence[int]
Pads = tuple[tuple[int, int], ...]


def as_ints(value: Any, n: int, op: str, name: str, lowest: int = 1) -> tuple[int, ...]:
    """One int for all spatial dimensions, or one for each, as n ints that are not below `lowest`."""
    try:
        ints = tuple(map(index, value if is_sequence(value) else (value,)))
    except TypeError:
        raise DtypeError(f"{op}: {name} must be an int or {n} of them, got {value!r}") from None
    if len(ints) == 1:
        ints *= n
    if len(ints) != n:
        raise ShapeError(f"{op}: {name} must be one int or {n}, got {value!r}")
    if min(ints, default=lowest) < lowest:
        raise ShapeError(f"{op}: {name} must be at least {lowest}, got {value!r}")
    return ints


def batched(x: Tensor, n: int, op: str) -> tuple[Tensor, bool]:
    """`x` as (batch, channel, *n spatial), and whether it came so."""
    if x.ndim == n + 2:
        return x, True
    if x.ndim == n + 1:
        return x.unsqueeze(0), False
    raise ShapeError(
        f"{op}: expected {n + 2} dimensions (batch, channel, {n} spatial) or {n + 1} without batch, "
        f"got shape {tuple(x.shape)}"
    )


def per_sample(fn: Callable[[Tensor], Tensor], x: Tensor, n: int, op: str) -> Tensor:
    """`fn` of the batched form of x, without the batch dimension again if x had none."""
    full, had_batch = batched(x, n, op)
    y = fn(full)
    return y if had_batch else y.squeeze(0)


def dilated_size(size: int, dilation: int) -> int:
    """The length of `size` elements with dilation - 1 gaps between neighbours."""
    return (size - 1) * dilation + 1 if size > 0 else 0


def n_windows(size: int, kernel: int, stride: int, dilation: int) -> int:
    """How many windows fit into `size`; 0 if none does."""
    return max(0, (size - dilated_size(kernel, dilation)) // stride + 1)


def padded(x: Array, pads: Pads, fill: Any = 0) -> Array:
    """`x` with that many fills before and after each spatial dimension; negative numbers take elements away.

    The array itself if there is nothing to do.
    """
    if not any(low or high for low, high in pads):
        return x
    lead = x.ndim - len(pads)
    sizes = [s + low + high for s, (low, high) in zip(x.shape[lead:], pads, strict=True)]
    out = np.full((*x.shape[:lead], *sizes), fill, x.dtype)
    into: list[Any] = [...]
    source: list[Any] = [...]
    for size, total, (low, _) in zip(x.shape[lead:], sizes, pads, strict=True):
        first, last = max(low, 0), min(low + size, total)
        into.append(slice(first, max(first, last)))
        source.append(slice(first - low, max(first, last) - low))
    out[tuple(into)] = x[tuple(source)]
    return out


def dilated(x: Array, dilation: tuple[int, ...]) -> Array:
    """`x` with dilation - 1 zeros between neighbours."""
    if all(d == 1 for d in dilation):
        return x
    lead = x.ndim - len(dilation)
    sizes = [dilated_size(s, d) for s, d in zip(x.shape[lead:], dilation, strict=True)]
    out = np.zeros((*x.shape[:lead], *sizes), x.dtype)
    kept: Any = (..., *(slice(None, None, d) for d in dilation))
    out[kept] = x
    return out


def windows(
    x: Array, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], counts: tuple[int, ...]
) -> Array:
    """A read-only view (*lead, *kernel, *counts): the element at each kernel place of each window."""
    lead = x.ndim - len(kernel)
    steps = x.strides[lead:]
    strides = [s * d for s, d in zip(steps, dilation, strict=True)] + [
        s * t for s, t in zip(steps, stride, strict=True)
    ]
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:lead], *kernel, *counts), (*x.strides[:lead], *strides), writeable=False
    )


def places(
    kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], counts: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Each place k in the kernel, with the index that selects the k-th element of every window."""
    for k in np.ndindex(*kernel):
        yield (
            k,
            (..., *(slice(i * d, i * d + n * s, s) for i, d, n, s in zip(k, dilation, counts, stride, strict=True))),
        )
