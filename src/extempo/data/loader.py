"""DataLoader: batches of a data set, fetched here or by worker processes.

The order of batches and the seeds of workers come from the main process alone, one draw each at the start of an epoch.
So `manual_seed` fixes them, any number of workers gives the same batches, and each worker has a stream of its own.
"""

from __future__ import annotations

import functools
import itertools
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import DtypeError, ShapeError
from ..random import Generator
from .collation import default_collate, default_convert
from .datasets import IterableDataset
from .fetching import Fetcher, IterableFetcher, MapFetcher
from .iteration import SerialIterator, WorkerIterator
from .samplers import BatchSampler, RandomSampler, SequentialSampler, batch_count, draw_seed, positive

if TYPE_CHECKING:
    from .pool import WorkerPool

T_co = TypeVar("T_co", covariant=True)

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers", "num_workers")


class DataLoader(Generic[T_co]):
    """Iterates over a data set in batches; each `iter()` is a new epoch, and several may run at once.

    Args:
        dataset: anything with `__getitem__`, or an `IterableDataset`.
        batch_size: samples per batch; None for single samples.
        shuffle: a new random order each epoch.
        sampler, batch_sampler: any iterable of indices, or of lists of indices, in place of `shuffle`.
        num_workers: processes that fetch ahead; 0 fetches in this one.
        collate_fn: from a list of samples to a batch; `default_collate`, or `default_convert` for single samples.
        drop_last: leave out a last batch that is smaller.
        timeout: seconds to wait for a batch from workers; 0 waits forever.
        worker_init_fn: called in each worker with its number, after its random streams were seeded.
        multiprocessing_context: "fork" (the default on Linux), "spawn" or "forkserver", or a context object.
        generator: where the order and the workers' seeds are drawn from.
        prefetch_factor: batches that each worker may be ahead; 2 unless given.
        persistent_workers: keep the processes for the next epoch. Their random streams start anew all the same.
        in_order: batches in the sampler's order, rather than as soon as they are ready.
        pin_memory, pin_memory_device: accepted; there is no other memory to copy to.

    An exception in a worker is raised here, of the same class, with the worker's traceback in its text. Workers end
    with the iterator, with an error, and with the process, however it ends.

    >>> data = ex.utils.data.TensorDataset(ex.arange(5.0), ex.arange(5))
    >>> loader = ex.utils.data.DataLoader(data, batch_size=3)
    >>> for x, y in loader:
    ...     print(x, y)
    tensor([0., 1., 2.]) tensor([0, 1, 2])
    tensor([3., 4.]) tensor([3, 4])
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self._iterable = isinstance(dataset, IterableDataset)
        _check_order(self._iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = (prefetch_factor or 2) if num_workers else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.drop_last = drop_last
        if batch_sampler is not None:
            batch_size = None
        self.batch_size = batch_size
        self.sampler: Any = sampler
        if sampler is None and not self._iterable:
            self.sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.batch_sampler: Any = batch_sampler
        if batch_sampler is None and batch_size is not None and not self._iterable:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        batched = batch_size is not None or batch_sampler is not None
        self.collate_fn: Callable[[Any], Any] = collate_fn or (default_collate if batched else default_convert)
        self._idle = _IdlePools()
        self._complete = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_complete"):
            raise ShapeError(f"DataLoader: {name} cannot be changed once the loader is made; make another one")
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_idle"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _idle=_IdlePools())

    def __iter__(self) -> Iterator[T_co]:
        base_seed = draw_seed(self.generator)  # also without workers, so that their number changes no later draw
        indices = iter(self._indices())  # samplers draw here, so that it does not matter how far ahead workers are
        make_fetcher = self._fetcher_maker()
        if not self.num_workers:
            return SerialIterator(indices, make_fetcher())
        pool = self._idle.take() or self._new_pool(make_fetcher)
        epoch = WorkerIterator(
            pool,
            self._idle.give_back if self.persistent_workers else type(pool).close,
            indices,
            base_seed,
            prefetch=self.prefetch_factor or 2,
            timeout=self.timeout,
            in_order=self.in_order,
        )
        if self.persistent_workers:
            self._idle.lend(pool, epoch)
        return epoch

    def _new_pool(self, make_fetcher: Callable[[], Fetcher]) -> WorkerPool:
        from .pool import WorkerPool, resolve_context  # multiprocessing takes long to import
        from .workers import Job

        job = Job(self.dataset, make_fetcher, self.worker_init_fn, self.num_workers, os.getpid())
        return WorkerPool(job, resolve_context(self.multiprocessing_context))

    def __len__(self) -> int:
        """How many batches an epoch has; for an IterableDataset, if its own `__len__` is right."""
        if not self._iterable:
            return len(self._indices())
        size = len(self.dataset)
        return size if self.batch_size is None else batch_count(size, self.batch_size, self.drop_last)

    def _indices(self) -> Any:
        """What is handed to the fetcher, one entry for each batch."""
        if self._iterable:
            return itertools.repeat(None)
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _fetcher_maker(self) -> Callable[[], Fetcher]:
        """A picklable maker of fetchers: an iterable data set starts anew each epoch."""
        if self._iterable:
            return functools.partial(IterableFetcher, self.dataset, self.collate_fn, self.batch_size, self.drop_last)
        return functools.partial(MapFetcher, self.dataset, self.collate_fn, self.batch_sampler is not None)


class _IdlePools:
    """The workers that a loader with `persistent_workers` keeps between epochs. With the loader they are dropped."""

    def __init__(self) -> None:
        self._pools: list[WorkerPool] = []
        self._lent: list[tuple[WorkerPool, weakref.ref[WorkerIterator]]] = []

    def lend(self, pool: WorkerPool, epoch: WorkerIterator) -> None:
        """It serves this epoch: given back at its end, or found here once the epoch has been dropped."""
        self._lent.append((pool, weakref.ref(epoch)))

    def take(self) -> WorkerPool | None:
        """A pool that can serve an epoch, if there is one."""
        dropped = [pool for pool, epoch in self._lent if epoch() is None]
        self._lent = [lent for lent in self._lent if lent[0] not in dropped]
        self._pools += dropped
        while self._pools:
            pool = self._pools.pop()
            if pool.is_usable():
                return pool
            pool.close()
        return None

    def give_back(self, pool: WorkerPool) -> None:
        """The epoch is over."""
        self._lent = [lent for lent in self._lent if lent[0] is not pool]
        self._pools.append(pool)


def _check_workers(num_workers: Any, timeout: Any, prefetch_factor: Any, persistent_workers: bool) -> None:
    for name, number in (("num_workers", num_workers), ("prefetch_factor", prefetch_factor)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise DtypeError(f"DataLoader: {name} must be an int, got {number!r}")
    if num_workers < 0:
        raise ShapeError(f"DataLoader: num_workers must be 0 or more, got {num_workers}; 0 fetches in this process")
    if timeout < 0:
        raise ShapeError(f"DataLoader: timeout must be 0 or more seconds, got {timeout}; 0 waits forever")
    if prefetch_factor is not None and prefetch_factor <= 0:
        raise ShapeError(f"DataLoader: prefetch_factor must be 1 or more, got {prefetch_factor}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ShapeError("DataLoader: prefetch_factor needs workers to fetch ahead; set num_workers too")
    if num_workers == 0 and persistent_workers:
        raise ShapeError("DataLoader: persistent_workers needs workers that could persist; set num_workers too")


def _check_order(
    iterable: bool, batch_size: Any, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if iterable:
        for name, given in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
            if given not in (None, False):
                raise ShapeError(f"DataLoader: an IterableDataset has its own order; {name} must not be given")
    if sampler is not None and shuffle:
        raise ShapeError("DataLoader: give shuffle or a sampler, not both")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ShapeError("DataLoader: a batch_sampler decides alone; batch_size, shuffle, sampler, drop_last must go")
    if batch_sampler is None and batch_size is not None:
        positive(batch_size, "DataLoader: batch_size")
    if batch_sampler is None and batch_size is None and drop_last:
        raise ShapeError("DataLoader: without batches (batch_size=None) there is no last one to drop")
