"""One tensor into many: split, chunk, unbind and their relatives. All make views, one `Slice` each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import as_int, check_size, is_sequence
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError
from .define import also_named, numpy_method
from .shaping import copying, existing_dim, narrow
from .view import Slice

__all__ = [
    "chunk",
    "dsplit",
    "hsplit",
    "split",
    "split_copy",
    "split_with_sizes",
    "split_with_sizes_copy",
    "tensor_split",
    "unbind",
    "unbind_copy",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "vsplit",
]


_SECTIONS = {"sections": "indices_or_sections", "indices": "indices_or_sections"}
_WANTED = "a number of sections or a list of indices"


def cut(x: Tensor, dim: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """Neighbouring views of these sizes."""
    before = (":",) * dim
    attrs: dict[str, Any] = {}
    parts, start, made_for = [], 0, None
    for size in sizes:
        if size is not made_for:  # most often all are equal
            attrs, made_for = {"spec": (*before, (size, 1))}, size
        parts.append(apply(Slice, (x, start), attrs))
        start += size
    return tuple(parts)


def _even(size: int, step: int) -> list[int]:
    """Sizes of parts, the last one perhaps smaller."""
    whole, rest = divmod(size, step)
    return [step] * whole + [rest] * (rest > 0)


def _int(op: str, value: Any, wanted: str) -> int:
    """An int, an integer of NumPy's or a tensor of one integer, as an int."""
    try:
        return int(value.__index__())
    except AttributeError:
        raise DtypeError(f"{op}: expected {wanted}, ints, got {value!r}") from None


def _ints(op: str, values: Any, wanted: str) -> tuple[int, ...]:
    if not isinstance(values, list | tuple) or not all(hasattr(value, "__index__") for value in values):
        raise DtypeError(f"{op}: expected {wanted}, ints, got {values!r}")
    return tuple(value.__index__() for value in values)


@numpy_method
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the given sizes along a dimension.

    >>> ex.split_with_sizes(ex.arange(4), [1, 3])
    (tensor([0]), tensor([1, 2, 3]))
    """
    d = existing_dim(input, dim, "split_with_sizes")
    size = input._type.shape[d]
    parts = _ints("split", split_sizes, "a size or a list of sizes")
    if sum(parts) != size or any(s < 0 for s in parts):
        raise ShapeError(f"split_with_sizes: sizes {parts} must add up to {size}, the size of dimension {d}")
    return cut(input, d, parts)


@method
@also_named(split_size="split_size_or_sections", input="tensor")
def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views along a dimension: of one size, the last one perhaps smaller, or of the sizes in a list.

    >>> ex.split(ex.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    >>> ex.split(ex.arange(5), [1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    if is_sequence(split_size_or_sections):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    d = existing_dim(tensor, dim, "split")
    size, step = tensor._type.shape[d], _int("split", split_size_or_sections, "a size or a list of sizes")
    if step < 0 or (step == 0 and size):
        raise ShapeError(f"split: expected a positive split size for dimension {d} of size {size}, got {step}")
    if not size:
        return cut(tensor, d, [0])
    return cut(tensor, d, _even(size, step))


@numpy_method
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most that many views of equal size along a dimension, the last one smaller where it does not divide.

    >>> ex.chunk(ex.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    d, chunks = existing_dim(input, dim, "chunk"), as_int(chunks, "chunk", "chunks")
    if chunks <= 0:
        raise ShapeError(f"chunk: expected a positive number of chunks, got {chunks}")
    size = input._type.shape[d]
    if not size:
        return cut(input, d, [0] * chunks)
    return cut(input, d, _even(size, -(-size // chunks)))


@method
@also_named(**_SECTIONS, tensor_indices_or_sections="indices_or_sections")
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views along a dimension: that many, as equal as can be, or cut before the indices in a list.

    >>> ex.tensor_split(ex.arange(5), 3)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    d = existing_dim(input, dim, "tensor_split")
    size = input._type.shape[d]
    where = indices_or_sections.tolist() if isinstance(indices_or_sections, Tensor) else indices_or_sections
    if not is_sequence(where):
        n_sections = _int("tensor_split", where, _WANTED)
        if n_sections <= 0:
            raise ShapeError(f"tensor_split: expected a positive number of sections, got {n_sections}")
        check_size("tensor_split", (n_sections,), 8)
        least, larger = divmod(size, n_sections)
        return cut(input, d, [least + 1] * larger + [least] * (n_sections - larger))
    where = _ints("tensor_split", where, _WANTED)
    starts = [slice(i, None).indices(size)[0] for i in (0, *where)]
    ends = [slice(0, i).indices(size)[1] for i in (*where, size)]
    return tuple(narrow(input, d, start, max(0, end - start)) for start, end in zip(starts, ends, strict=True))


def _split_along(input: Tensor, where: Any, dim: int, op: str, least: int) -> tuple[Tensor, ...]:
    if input.ndim < least:
        raise ShapeError(f"{op}: expected at least {least} dimensions, got shape {tuple(input.shape)}")
    if is_sequence(where):
        return tensor_split(input, where if isinstance(where, Tensor) else _ints(op, where, _WANTED), dim)
    n_sections = _int(op, where, _WANTED)
    if n_sections <= 0 or input._type.shape[dim] % n_sections:
        size = input.shape[dim]
        raise ShapeError(f"{op}: dimension {dim} of size {size} is not divisible into {n_sections} sections")
    return tensor_split(input, n_sections, dim)


@method
@also_named(**_SECTIONS)
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Views along the second dimension, of vectors along their only one.

    >>> ex.hsplit(ex.tensor([1, 2, 3, 4]), 2)
    (tensor([1, 2]), tensor([3, 4]))
    """
    return _split_along(input, indices_or_sections, 0 if input.ndim == 1 else 1, "hsplit", 1)


@method
@also_named(**_SECTIONS)
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Views along the first dimension.

    >>> ex.vsplit(ex.tensor([[1, 2], [3, 4]]), 2)
    (tensor([[1, 2]]), tensor([[3, 4]]))
    """
    return _split_along(input, indices_or_sections, 0, "vsplit", 2)


@method
@also_named(**_SECTIONS)
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Views along the third dimension.

    >>> [part.shape for part in ex.dsplit(ex.zeros(2, 3, 4), 2)]
    [extempo.Size([2, 3, 2]), extempo.Size([2, 3, 2])]
    """
    return _split_along(input, indices_or_sections, 2, "dsplit", 3)


@numpy_method
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of each index of a dimension, which disappears.

    >>> ex.unbind(ex.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    d = existing_dim(input, dim, "unbind")
    attrs = {"spec": (":",) * d + ("i",)}
    return tuple([apply(Slice, (input, i), attrs) for i in range(input._type.shape[d])])


# PyTorch's unsafe forms do not track writes through their results; ours are tracked like any view's.
unsafe_chunk = method(chunk, "unsafe_chunk")
unsafe_split = method(split, "unsafe_split")
unsafe_split_with_sizes = method(split_with_sizes, "unsafe_split_with_sizes")

split_copy = copying(split, "split_copy", "ex.split_copy(ex.arange(4), 2)\n(tensor([0, 1]), tensor([2, 3]))")
split_with_sizes_copy = copying(
    split_with_sizes,
    "split_with_sizes_copy",
    "ex.split_with_sizes_copy(ex.arange(4), [1, 3])\n(tensor([0]), tensor([1, 2, 3]))",
)
unbind_copy = copying(
    unbind, "unbind_copy", "ex.unbind_copy(ex.tensor([[1, 2], [3, 4]]))\n(tensor([1, 2]), tensor([3, 4]))"
)
