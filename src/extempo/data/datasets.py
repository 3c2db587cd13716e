"""Data sets: what a `DataLoader` reads.

A map-style data set has `__getitem__` and, for most samplers, `__len__`; a list or a tensor is one already. An
iterable data set has `__iter__` only. A map-style data set may also have `__getitems__(indices)`, which returns the
list of those samples at once: the loader prefers it.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from .. import ops
from ..core.tensor import Tensor
from ..core.wording import counted
from ..errors import DtypeError, IndexRangeError, ShapeError, UnsupportedError
from ..ragged_tensors.tensor import RaggedTensor
from ..random import Generator

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


def position(index: Any, length: int, what: str) -> int:
    """The index counted from the front; an error outside of the range, as iteration over `__getitem__` needs."""
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexRangeError(f"{what}: index {number} lies outside of its {counted(length, 'sample')}")
    return number % length if length else number


def samples(dataset: Any, indices: Sequence[Any]) -> Any:
    """The samples of these indices, at once where the data set can."""
    if callable(getattr(dataset, "__getitems__", None)):
        found = dataset.__getitems__(indices)
        if len(found) != len(indices):
            raise ShapeError(
                f"{type(dataset).__name__}.__getitems__: {counted(len(indices), 'index', 'indices')} gave "
                f"{counted(len(found), 'sample')}; "
                "return one sample for each index, in their order"
            )
        return found
    return [dataset[index] for index in indices]


class Dataset(Generic[T_co]):
    """A map-style data set: subclasses write `__getitem__`, and `__len__` unless the sampler is given.

    >>> class Squares(ex.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 5
    ...     def __getitem__(self, index):
    ...         return index, index**2
    >>> Squares()[3]
    (3, 9)
    """

    def __getitem__(self, index: Any) -> T_co:
        raise UnsupportedError(f"{type(self).__name__} is a Dataset without __getitem__; define it in the class")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """A data set that is read in its own order: subclasses write `__iter__`.

    With worker processes, each of them iterates over its own copy; `get_worker_info()` says which part is its own.

    >>> class Countdown(ex.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> list(ex.utils.data.DataLoader(Countdown(), batch_size=2))
    [tensor([3, 2]), tensor([1])]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise UnsupportedError(f"{type(self).__name__} is an IterableDataset without __iter__; define it in the class")

    def __add__(self, other: Dataset[T_co]) -> ChainDataset[T_co]:  # type: ignore[override] # as in PyTorch
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """The rows of tensors, some of them ragged, that have the same first size.

    >>> rows = ex.utils.data.TensorDataset(ex.arange(6).view(3, 2), ex.tensor([0, 1, 0]))
    >>> rows[1]
    (tensor([2, 3]), tensor(1))
    """

    def __init__(self, *tensors: Tensor | RaggedTensor) -> None:
        for tensor in tensors:
            if not isinstance(tensor, Tensor | RaggedTensor):
                raise DtypeError(f"TensorDataset: expected tensors, got {type(tensor).__name__}; use ex.as_tensor(...)")
            if not tensor.ndim:
                raise ShapeError("TensorDataset: a 0-dim tensor has no rows")
        if len({len(tensor) for tensor in tensors}) > 1:
            raise ShapeError(
                f"TensorDataset: the first sizes differ: {', '.join(str(tuple(t.shape)) for t in tensors)}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0]) if self.tensors else 0


class StackDataset(Dataset[Any]):
    """Data sets side by side: a sample is a tuple of theirs, or a dict if they are given by name.

    >>> pairs = ex.utils.data.StackDataset(image=["a", "b"], label=[0, 1])
    >>> pairs[1]
    {'image': 'b', 'label': 1}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ShapeError("StackDataset: give the data sets either all by position (tuples) or all by name (dicts)")
        self.datasets: tuple[Any, ...] | dict[str, Any] = args or kwargs
        lengths = [len(part) for part in self._parts()]
        if len(set(lengths)) > 1:
            raise ShapeError(f"StackDataset: the data sets have different lengths: {lengths}")
        self._length = lengths[0]

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _joined(self, found: Iterable[Any]) -> Any:
        return dict(zip(self.datasets, found, strict=True)) if isinstance(self.datasets, dict) else tuple(found)

    def __getitem__(self, index: Any) -> Any:
        return self._joined(part[index] for part in self._parts())

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        columns = [samples(part, indices) for part in self._parts()]
        return [self._joined(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Data sets one after another; also `first + second`.

    >>> both = ex.utils.data.ConcatDataset(["ab", "cde"])
    >>> len(both), both[3], both[-1]
    (5, 'd', 'e')
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ShapeError("ConcatDataset: expected at least one data set")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise DtypeError("ConcatDataset: an IterableDataset cannot be indexed; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __getitem__(self, index: Any) -> T_co:
        number = position(index, len(self), "ConcatDataset")
        which = bisect.bisect_right(self.cumulative_sizes, number)
        return self.datasets[which][number - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[T_co]):
    """Iterable data sets one after another; also `first + second`.

    >>> class Letters(ex.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter("ab")
    >>> list(ex.utils.data.ChainDataset([Letters(), Letters()]))
    ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[T_co]:
        for part in self.datasets:
            if not isinstance(part, IterableDataset):
                raise DtypeError(f"ChainDataset: expected IterableDatasets, got {type(part).__name__}")
            yield from part

    def __len__(self) -> int:
        return sum(len(part) for part in self.datasets)


class Subset(Dataset[T_co]):
    """The samples of a data set that `indices` names, in their order.

    >>> ex.utils.data.Subset("abcdef", [4, 0])[0]
    'e'
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[T_co]:
        return samples(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None) -> list[Subset[Any]]:
    """Subsets of these lengths, or of these fractions of the whole, drawn at random and without overlap.

    >>> train, test = ex.utils.data.random_split(range(10), [0.8, 0.2], ex.Generator().manual_seed(0))
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)
    """
    total = len(dataset)
    given: Any = lengths
    sizes = _sizes_of_fractions(given, total) if _are_fractions(given) else [operator.index(size) for size in given]
    if sum(sizes) != total or any(size < 0 for size in sizes):
        raise ShapeError(f"random_split: the lengths {list(lengths)} do not add up to the {total} samples")
    indices = ops.randperm(total, generator=generator).tolist()
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, indices[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _are_fractions(lengths: Sequence[int | float]) -> bool:
    return math.isclose(sum(lengths), 1) and sum(lengths) <= 1


def _sizes_of_fractions(fractions: Sequence[float], total: int) -> list[int]:
    if any(not 0 <= fraction <= 1 for fraction in fractions):
        raise ShapeError(f"random_split: fractions lie between 0 and 1, got {list(fractions)}")
    sizes = [math.floor(total * fraction) for fraction in fractions]
    for extra in range(total - sum(sizes)):  # what rounding down left, one for each part from the first on
        sizes[extra % len(sizes)] += 1
    return sizes
