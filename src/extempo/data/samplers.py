"""Samplers: the order in which a `DataLoader` visits a data set.

A sampler is any iterable of indices, a batch sampler any iterable of lists of them. Those that draw at random take
one seed from their generator each time they are iterated over, at once: what else is drawn while the epoch runs, and
how far ahead workers prefetch, then change nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from .. import ops
from ..core.tensor import Tensor
from ..distributed.groups import get_rank, get_world_size
from ..errors import DtypeError, ShapeError
from ..random import Generator

T_co = TypeVar("T_co", covariant=True)

_CHUNK = 1 << 16  # indices that are Python ints at one time: a list of a hundred million of them takes gigabytes


def draw_seed(generator: Generator | None) -> int:
    """One draw, which belongs to the caller."""
    return int(ops.randint(2**63 - 1, (), generator=generator).item())


def fresh_generator(generator: Generator | None) -> Generator:
    """A generator of its own, seeded by one draw."""
    return Generator().manual_seed(draw_seed(generator))


def in_chunks(numbers: Tensor) -> Iterator[int]:
    """The values of an integer tensor as ints."""
    for start in range(0, len(numbers), _CHUNK):
        yield from numbers[start : start + _CHUNK].tolist()


def positive(number: Any, what: str) -> int:
    """The number, if it is an int above 0."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise DtypeError(f"{what}: expected a positive int, got {number!r}")
    if number <= 0:
        raise ShapeError(f"{what}: expected a positive int, got {number}")
    return number


class Sampler(Generic[T_co]):
    """An iterable of indices; subclasses write `__iter__`, and `__len__` if it is known.

    >>> class Backwards(ex.utils.data.Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    >>> list(ex.utils.data.DataLoader(["a", "b", "c"], sampler=Backwards(), batch_size=None))
    ['c', 'b', 'a']
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} is a Sampler without __iter__; define it in the class")


class SequentialSampler(Sampler[int]):
    """Every index in order.

    >>> list(ex.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Every index in random order; with `replacement`, `num_samples` independent draws.

    >>> sampler = ex.utils.data.RandomSampler("abcd", generator=ex.Generator().manual_seed(0))
    >>> sorted(sampler)
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise DtypeError(f"RandomSampler: replacement must be a bool, got {replacement!r}")
        if num_samples is not None:
            positive(num_samples, "RandomSampler: num_samples")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator

    @property
    def num_samples(self) -> int:
        """How many indices one epoch has; the size of the data set, which may change, unless it was given."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = fresh_generator(self.generator)
        draws = self._with_replacement(generator) if self.replacement else self._permutations(generator)
        return itertools.islice(draws, self.num_samples)

    def _with_replacement(self, generator: Generator) -> Iterator[int]:
        size = len(self.data_source)
        while size:
            yield from ops.randint(size, (min(_CHUNK, self.num_samples),), generator=generator).tolist()

    def _permutations(self, generator: Generator) -> Iterator[int]:
        size = len(self.data_source)
        while size:
            yield from in_chunks(ops.randperm(size, generator=generator))

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    >>> sorted(ex.utils.data.SubsetRandomSampler([7, 3, 5]))
    [3, 5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = ops.randperm(len(self.indices), generator=fresh_generator(self.generator))
        return (self.indices[i] for i in in_chunks(order))

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices, each drawn with a chance in proportion to its weight.

    >>> sorted(ex.utils.data.WeightedRandomSampler([0.0, 1.0, 2.0], 2, replacement=False))
    [1, 2]
    """

    def __init__(
        self, weights: Any, num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        if not isinstance(replacement, bool):
            raise DtypeError(f"WeightedRandomSampler: replacement must be a bool, got {replacement!r}")
        self.weights = ops.as_tensor(weights).double()
        if self.weights.ndim != 1:
            raise ShapeError(
                f"WeightedRandomSampler: expected one weight for each sample, got shape {self.weights.shape}"
            )
        self.num_samples = positive(num_samples, "WeightedRandomSampler: num_samples")
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        generator = fresh_generator(self.generator)
        return in_chunks(ops.multinomial(self.weights, self.num_samples, self.replacement, generator=generator))

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices from another sampler; `drop_last` leaves out a last list that is shorter.

    >>> list(ex.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(drop_last, bool):
            raise DtypeError(f"BatchSampler: drop_last must be a bool, got {drop_last!r}")
        self.sampler = sampler
        self.batch_size = positive(batch_size, "BatchSampler: batch_size")
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        return self._batches(iter(self.sampler))  # the sampler draws its seed here, not at the first batch

    def _batches(self, indices: Iterator[int]) -> Iterator[list[int]]:
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        return batch_count(len(self.sampler), self.batch_size, self.drop_last)  # type: ignore[arg-type] # if it has one


def batch_count(n_samples: int, batch_size: int, drop_last: bool) -> int:
    """How many batches that makes."""
    return n_samples // batch_size if drop_last else math.ceil(n_samples / batch_size)


class BlockRandomSampler(Sampler[int]):
    """Every index in random order, block by block: blocks in random order, indices in random order inside each.

    For files that are read a block at a time, such as Parquet's row groups: each block is read once an epoch, where a
    `RandomSampler` would read one for almost every sample.

    >>> order = list(ex.utils.data.BlockRandomSampler([3, 3]))
    >>> sorted(order), sorted(order[:3]) in ([0, 1, 2], [3, 4, 5])
    ([0, 1, 2, 3, 4, 5], True)
    """

    def __init__(self, block_sizes: Sequence[int], generator: Generator | None = None) -> None:
        self.block_sizes = [int(size) for size in block_sizes]
        if any(size < 0 for size in self.block_sizes):
            raise ShapeError(f"BlockRandomSampler: sizes cannot be negative, got {self.block_sizes}")
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        return self._indices(fresh_generator(self.generator))

    def _indices(self, generator: Generator) -> Iterator[int]:
        starts = [0, *itertools.accumulate(self.block_sizes)]
        for block in ops.randperm(len(self.block_sizes), generator=generator).tolist():
            yield from in_chunks(ops.randperm(self.block_sizes[block], generator=generator) + starts[block])

    def __len__(self) -> int:
        return sum(self.block_sizes)


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index, from `rank` on, in an order that depends on `seed` and the epoch alone.

    Processes that train side by side each see their own part; which one follows from `ex.distributed` unless it is
    given. Call `set_epoch` before each epoch, or every epoch has
    the same order. Parts are of equal size: indices are repeated to fill them up or, with `drop_last`, left out.

    >>> parts = [ex.utils.data.DistributedSampler("abcde", 2, rank, shuffle=False) for rank in (0, 1)]
    >>> [list(part) for part in parts]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.dataset = dataset
        self._num_replicas = (
            None if num_replicas is None else positive(num_replicas, "DistributedSampler: num_replicas")
        )
        self._rank = rank
        if not 0 <= self.rank < self.num_replicas:
            raise ShapeError(f"DistributedSampler: rank must be in 0..{self.num_replicas - 1}, got {rank}")
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0

    @property
    def num_replicas(self) -> int:
        """How many parts there are: as given, or one for each process of the group, also after one was lost."""
        return get_world_size() if self._num_replicas is None else self._num_replicas

    @property
    def rank(self) -> int:
        """Which part this one is: as given, or the number of the process."""
        return get_rank() if self._rank is None else self._rank

    @property
    def num_samples(self) -> int:
        """The size of one part."""
        return batch_count(len(self.dataset), self.num_replicas, self.drop_last)

    @property
    def total_size(self) -> int:
        """The size of all parts together."""
        return self.num_samples * self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next epoch; give the same number in all processes."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        order = ops.arange(size)
        if self.shuffle:
            order = ops.randperm(size, generator=Generator().manual_seed(self.seed + self.epoch))
        places = ops.arange(self.rank, self.total_size, self.num_replicas) % max(size, 1)
        return in_chunks(order[places])

    def __len__(self) -> int:
        return self.num_samples
