"""What a batch is, and the batches of an epoch: from its beginning, or from the middle of one that was interrupted.

An epoch's order follows from the random streams as they were when it began. Batches are fetched one at a time, when the
step before is done, and draws that are made while fetching come from a stream of their own, so that what the model
draws does not move them: skipping those that were used already leads to the same next batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..data import Dataset, IterableDataset
from ..errors import ShapeError
from ..ragged_tensors.tensor import RaggedTensor
from ..random import Generator, current_generator, use_generator
from .positions import Position, random_state, restore_random_state

Inputs = tuple[Any, ...] | dict[str, Any]

TARGET = "target"


def split(batch: Any) -> tuple[Inputs, Any]:
    """Inputs and target: of (inputs..., target), or of a dict, whose other entries are keyword arguments."""
    if isinstance(batch, Mapping):
        if TARGET in batch and len(batch) > 1:
            return {name: value for name, value in batch.items() if name != TARGET}, batch[TARGET]
        raise ShapeError(f"Trainer: a batch that is a dict needs inputs and the entry 'target', got {list(batch)}")
    if isinstance(batch, tuple | list) and len(batch) >= 2:
        return tuple(batch[:-1]), batch[-1]
    got = f"{type(batch).__name__} of {len(batch)}" if isinstance(batch, tuple | list) else type(batch).__name__
    raise ShapeError(
        f"Trainer: expected batches (inputs..., target), got {got}; make them by "
        "DataLoader(TensorDataset(x, y), batch_size=32), or pass one batch as [(x, y)]"
    )


def inputs_of(batch: Any, has_target: bool) -> Inputs:
    """The inputs of a batch that may have a target."""
    if isinstance(batch, Mapping):
        return {name: value for name, value in batch.items() if name != TARGET}
    if isinstance(batch, tuple | list):
        return tuple(batch[:-1]) if has_target and len(batch) > 1 else tuple(batch)
    return (batch,)


def n_samples(target: Any) -> int:
    """How many samples a target is for."""
    if isinstance(target, Tensor):
        return int(target.shape[0]) if target.ndim else 1
    if isinstance(target, Mapping):
        return n_samples(next(iter(target.values())))
    if isinstance(target, tuple) and target and isinstance(target[0], Tensor) and target[0].ndim:
        return n_samples(target[0])  # several targets of the same samples
    return len(target) if isinstance(target, Sized) else 1


def joined(outputs: Sequence[Any]) -> Any:
    """The outputs of several batches as one: tensors put together, tuples and dicts entry by entry, else a list."""
    first = outputs[0] if outputs else None
    if isinstance(first, Tensor):
        return ops.cat(list(outputs)) if first.ndim else ops.stack(list(outputs))
    if isinstance(first, RaggedTensor):
        return ops.cat(list(outputs))
    if isinstance(first, tuple):
        return tuple(joined(column) for column in zip(*outputs, strict=True))
    if isinstance(first, Mapping):
        return {name: joined([output[name] for output in outputs]) for name in first}
    return list(outputs)


def require_batches(caller: str, name: str, data: Any) -> None:
    """Refuse what is no iterable of batches, before anything is trained."""
    if not isinstance(data, Iterable) and not hasattr(data, "__getitem__"):
        hint = "; call it" if callable(data) else f"; did you mean epochs={data}?" if isinstance(data, int) else ""
        raise TypeError(f"{caller}: {name} must be an iterable of batches, got {type(data).__name__}{hint}")
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        raise TypeError(
            f"{caller}: {name} is a data set, which has samples and no batches: DataLoader({name}, batch_size=32, ...)"
        )
    if isinstance(data, Tensor):
        raise TypeError(f"{caller}: {name} is a tensor: DataLoader(TensorDataset(x, y), batch_size=32) makes batches")
    if isinstance(data, Sized) and not n_batches(data, 1):
        raise ShapeError(f"{caller}: {name} has no batches; is the data set empty, or smaller than drop_last allows?")


def n_batches(data: Any, otherwise: int | None = None) -> int | None:
    """How many batches there are, if that can be known: a loader of a data set without length has no length."""
    try:
        return len(data)
    except TypeError:
        return otherwise


class PutBack(Iterator[Any]):
    """An iterator whose first batch can be looked at before it is used."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator
        self._first: list[Any] = []

    def __next__(self) -> Any:
        return self._first.pop() if self._first else next(self._iterator)

    def peek(self) -> Any:
        """The next batch, which stays the next; None if there is none."""
        if not self._first:
            self._first = list(itertools.islice(self._iterator, 1))
        return self._first[0] if self._first else None


class Feed(Iterator[Any]):
    """The batches of an epoch that are left at a position."""

    def __init__(self, data: Iterable[Any], so_far: Position, loaders: tuple[Any, ...]) -> None:
        n_done = so_far.n_batches
        now = random_state(*loaders)
        if n_done:
            restore_random_state(so_far.began_with, *loaders)
        else:
            so_far.began_with = now
        self._generator = Generator().manual_seed(_foreseen(current_generator()))
        self._batches = iter(data)
        for _ in range(n_done):
            next(self, None)
        if n_done:
            restore_random_state(now, *loaders)
        size = n_batches(data)
        self.n_left = None if size is None else max(size - n_done, 0)

    def __next__(self) -> Any:
        with use_generator(self._generator):
            return next(self._batches)


def _foreseen(generator: Generator) -> int:
    """The seed that the next draw would give, without making it."""
    return int(ops.randint(2**63 - 1, (), generator=generator.clone_state()).item())
