"""A Trainer among processes: each learns from its own batches, all have the mean gradient, the first one writes.

Batches are dealt out in turn, so one step of N ranks learns from N batches, each rank's gradient counting by its number
of samples. Without a group of several processes nothing here does anything.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..autograd.waiting import WAITING
from ..distributed.groups import ProcessGroup, current_world
from ..distributed.objects import exchanged, shared
from ..distributed.reducer import Reducer
from ..metrics import Metric
from ..nn import Module
from ..nn.parallel import DistributedDataParallel
from .positions import Position, random_state, restore_random_state

NO_BATCH = object()  # what a rank gets where the others have one more batch
_BUCKET_BYTES = 25 << 20


class Ranks:
    """The processes that train together; `group` is None for one alone."""

    def __init__(self) -> None:
        self.group: ProcessGroup | None = current_world()
        self._reducer: Reducer | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process writes and prints."""
        return self.group is None or self.group.rank() == 0

    def begin(self, model: Module) -> Callable[[int, bool], None] | None:
        """Make the model the same on all ranks; what to call before each forward (samples, whether a step follows)."""
        if self.group is None:
            return None
        if isinstance(model, DistributedDataParallel):
            self._reducer = model._reducer
            model.require_backward_grad_sync = False  # the Trainer says when
        else:
            self._reducer = Reducer(model, self.group, _BUCKET_BYTES, as_views=False)
            self._reducer.check()
            self._reducer.share()
        return self._before_forward

    def _before_forward(self, n_samples: int, update: bool) -> None:
        assert self._reducer is not None
        self._reducer.weight = float(n_samples)
        self._reducer.prepare()
        if update:
            WAITING[self._reducer.number] = self._reducer.reduce

    def exchange(self, n_samples: int) -> None:
        """Average gradients now: of a group of batches that was not full, or of none."""
        if self._reducer is not None:
            self._reducer.weight = float(n_samples)
            self._reducer.prepare()
            self._reducer.reduce()

    def share(self, data: Any) -> Any:
        """The batches of this rank."""
        if self.group is None or data is None or hasattr(getattr(data, "sampler", None), "num_replicas"):
            return data
        return RankBatches(data, self.group)

    def begin_epoch(self, epoch: int, loaders: tuple[Any, ...]) -> None:
        """One order of batches everywhere."""
        for loader in loaders:
            chosen = getattr(getattr(loader, "sampler", None), "set_epoch", None)
            if chosen is not None:
                chosen(epoch)
        if self.group is not None:
            engine = self.group.engine
            own = random_state(*loaders)
            found = self.group.together("the beginning of an epoch", lambda _: shared(engine, own, 0))
            restore_random_state(found, *loaders)

    def agreed(self, stop: str | None) -> str | None:
        """Why to stop: this rank's reason, or that another one has one."""
        if self.group is None:
            return stop
        wishes = self.group.together("a pause between steps", lambda table: table[:, 0], facts=(stop is not None,))
        return stop if stop is not None or not wishes.any() else "another rank was told to stop"

    def merged(self, so_far: Position, metrics: dict[str, Metric]) -> tuple[Position, dict[str, Metric]]:
        """The epoch so far, and the metrics, of all ranks together."""
        if self.group is None:
            return so_far, metrics
        engine = self.group.engine
        found = self.group.together(
            "the figures of all ranks", lambda _: exchanged(engine, (so_far.total, so_far.n_seen, metrics))
        )
        position = copy.copy(so_far)
        position.total = sum(total for total, _, _ in found)
        position.n_seen = sum(n for _, n, _ in found)
        whole = copy.deepcopy(found[0][2])
        for _, _, others in found[1:]:
            for name, metric in others.items():
                whole[name].merge(metric)
        return position, whole

    def tell(self, value: Any) -> Any:
        """The first rank's value, on all."""
        if self.group is None:
            return value
        engine = self.group.engine
        return self.group.together("a value of rank 0", lambda _: shared(engine, value, 0))


class RankBatches:
    """Every N-th batch, from the rank's number on; NO_BATCH where the last round does not reach it."""

    def __init__(self, data: Iterable[Any], group: ProcessGroup) -> None:
        self._data = data
        self._group = group

    def __len__(self) -> int:
        return -(-len(self._data) // self._group.size())  # type: ignore[arg-type] # TypeError where it has none

    def __iter__(self) -> Iterator[Any]:
        rank, size = self._group.rank(), self._group.size()
        sampler = getattr(self._data, "batch_sampler", None)
        if sampler is None:
            batches = iter(self._data)
            while round_ := list(itertools.islice(batches, size)):
                yield round_[rank] if rank < len(round_) else NO_BATCH
            return
        own, dealt = copy.copy(self._data), _Dealt(sampler, rank, size)
        own.__dict__["batch_sampler"] = dealt  # of a copy that nobody else sees; a DataLoader's cannot be set
        yield from own
        if dealt.n_given < dealt.n_rounds:
            yield NO_BATCH


class _Dealt:
    """The lists of indices of one rank."""

    def __init__(self, sampler: Iterable[Any], rank: int, size: int) -> None:
        self._sampler = sampler
        self._rank = rank
        self._size = size
        self.n_given = self.n_rounds = 0

    def __iter__(self) -> Iterator[Any]:
        self.n_given = self.n_rounds = 0
        for i, indices in enumerate(self._sampler):
            self.n_rounds += i % self._size == 0
            if i % self._size == self._rank:
                self.n_given += 1
                yield indices

    def __len__(self) -> int:
        n = len(self._sampler)  # type: ignore[arg-type] # a loader asks only if it has one
        return n // self._size + (n % self._size > self._rank)
