"""More elements around those of a tensor: constants, or reflections, copies and repetitions of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.op import Op, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor, from_array
from ..core.types import InputType, Number, TensorType
from ..dispatch.dispatcher import apply
from ..errors import ShapeError, UnsupportedError
from .index import index_select
from .view import Slice

__all__ = ["constant_pad_nd"]


class ConstantPad(Op):
    """Each dimension lengthened at both ends by one value."""

    public_name = "pad"
    family = "arrange"
    quiet = True
    saves = ("",)
    lower = Routine("constant_pad")
    ragged = "picking.constant_pad"

    @staticmethod
    def infer(x: TensorType, value: InputType, *, widths: tuple[tuple[int, int], ...]) -> TensorType:
        return TensorType(
            tuple(s + before + after for s, (before, after) in zip(x.shape, widths, strict=True)), x.dtype
        )

    @staticmethod
    def numpy(x: Array, value: Any, *, widths: tuple[tuple[int, int], ...]) -> Array:
        out = np.full(tuple(s + a + b for s, (a, b) in zip(x.shape, widths, strict=True)), value, x.dtype)
        out[tuple(slice(a, a + s) for s, (a, _) in zip(x.shape, widths, strict=True))] = x
        return out

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, value: Any, *, widths: tuple[tuple[int, int], ...]) -> tuple[Any, ...]:
        starts = tuple(before for before, _ in widths)
        return apply(Slice, (g, *starts), {"spec": tuple((s, 1) for s in x.shape)}), None

    @staticmethod
    def batch(size: int, x: Tensor, value: Any, *, widths: tuple[tuple[int, int], ...]) -> Tensor:
        return apply(ConstantPad, (x, value), {"widths": ((0, 0), *widths)})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), 1.5, widths=((0, 1), (2, 0)))
        yield Sample(rng.normal(size=(0,)), 0.0, widths=((1, 1),))

    @staticmethod
    def onnx(b: Any, x: Any, value: Any, *, widths: tuple[tuple[int, int], ...]) -> Any:
        pads = [before for before, _ in widths] + [after for _, after in widths]
        narrow = b.plain(x)
        return b.Pad(narrow, pads, b.value(value, narrow.dtype)) if widths else x


def _widths(x: Tensor, pad: Sequence[int], op: str) -> list[tuple[int, int]]:
    """(before, after) for every dimension, from PyTorch's list that begins with the last one."""
    given = [int(p) for p in pad]
    if len(given) % 2 or len(given) > 2 * x.ndim:
        raise ShapeError(f"{op}: expected 2 numbers for each of at most {x.ndim} dimensions, got {tuple(given)}")
    pairs = list(zip(given[::2], given[1::2], strict=True))
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    for d, (size, (before, after)) in enumerate(zip(x._type.shape, widths, strict=True)):
        if before + after < 0 and size + before + after < 0:
            raise ShapeError(f"{op}: pad {before}, {after} leaves nothing of dimension {d} of size {size}")
    return widths


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    """Dimensions lengthened by one value, the last dimension's two numbers first; negative numbers cut off.

    >>> ex.constant_pad_nd(ex.tensor([1, 2]), (1, 2), value=9)
    tensor([9, 1, 2, 9, 9])
    """
    widths = _widths(input, pad, "constant_pad_nd")
    if any(n < 0 for pair in widths for n in pair):
        starts = [max(0, -before) for before, _ in widths]
        lengths = [max(0, s + min(0, b) + min(0, a)) for s, (b, a) in zip(input._type.shape, widths, strict=True)]
        input = apply(Slice, (input, *starts), {"spec": tuple((n, 1) for n in lengths)})
        widths = [(max(0, before), max(0, after)) for before, after in widths]
    return apply(ConstantPad, (input, value), {"widths": tuple(widths)})


def _source_places(size: int, before: int, after: int, mode: str) -> Array:
    """For every place of a padded dimension, which element it repeats."""
    if mode == "circular":  # what is cut off is not repeated either
        kept = np.arange(max(0, -before), size - max(0, -after))
        return kept[np.arange(-max(0, before), kept.size + max(0, after)) % kept.size]
    places = np.arange(-before, size + after)
    return places.clip(0, size - 1) if mode == "replicate" else size - 1 - abs(size - 1 - abs(places))


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """`nn.functional.pad`: dimensions lengthened by a value, or by "reflect", "replicate" or "circular" repetition.

    >>> F.pad(ex.tensor([[1, 2, 3]]), (1, 1)), F.pad(ex.tensor([[1, 2, 3]]), (1, 1), mode="reflect")
    (tensor([[0, 1, 2, 3, 0]]), tensor([[2, 1, 2, 3, 2]]))
    """
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ShapeError(f"pad: mode must be constant, reflect, replicate or circular, got {mode!r}")
    if value is not None and value != 0:
        raise ShapeError(f"pad: mode {mode!r} takes no value, got {value}")
    n_padded = len(pad) // 2
    if input.ndim not in (n_padded + 1, n_padded + 2):
        raise UnsupportedError(
            f"pad: {mode!r} padding of {n_padded} dimensions takes {n_padded + 1} or {n_padded + 2} of them, got "
            f"shape {tuple(input.shape)}"
        )
    for d, (before, after) in enumerate(_widths(input, pad, "pad")):
        if before or after:
            size = input._type.shape[d]
            limit = {"reflect": size - 1, "circular": size}.get(mode, size and max(before, after))
            if max(before, after) > limit:
                raise ShapeError(
                    f"pad: {mode!r} lengthens dimension {d} of size {size} by {limit} at most, not {before}, {after}"
                )
            input = index_select(input, d, from_array(_source_places(size, before, after, mode)))
    return input
