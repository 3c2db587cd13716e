"""From samples to a batch: `default_collate` and `default_convert`.

As PyTorch's, with one difference. Samples of different shapes are what this library is for, so tensors and arrays that
differ in their first size become a ragged tensor, and those that differ otherwise a list with one tensor for each
sample. Iterating over a batch gives its samples in all three cases.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.tensor import Tensor
from ..errors import DtypeError, ShapeError
from ..ragged_tensors.creation import ragged
from ..ragged_tensors.tensor import RaggedTensor


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers as tensors, inside of tuples (which become lists), lists and dicts too.

    >>> import numpy as np
    >>> ex.utils.data.default_convert({"x": [np.arange(2), "word"], "y": 1})
    {'x': [tensor([0, 1]), 'word'], 'y': 1}
    """
    if isinstance(data, Tensor | RaggedTensor | str | bytes):
        return data
    if isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in "SUO" else _tensor(data)
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence):
        return _sequence_like(data, map(default_convert, data))
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch from a list of samples that are alike.

    Tensors and arrays are stacked along a new first dimension if their shapes are equal, as in PyTorch; become a ragged
    tensor if they differ in their first size only; stay a list of tensors if they differ otherwise. Numbers become one
    tensor (floats float64, as in PyTorch); strings and bytes stay as they are; tuples, lists and dicts are collated
    member by member. A tuple of members comes back as a list, a named tuple as itself.

    So a batch of sequences that happen to be of one length is a regular tensor. Code that wants ragged tensors always
    passes `collate_fn=ex.ragged`, or calls it in its own, or calls `ex.ragged(batch)`, which takes either.

    Python lists are always collated member by member, as in PyTorch, so lists of different lengths are an error: turned
    into one entry per sample they would change their meaning whenever all lengths happened to be equal. Return
    `ex.tensor(ids)` from the data set.

    >>> ex.utils.data.default_collate([(ex.tensor([1, 2]), "a"), (ex.tensor([3, 4]), "b")])
    [tensor([[1, 2],
            [3, 4]]), ('a', 'b')]
    >>> ex.utils.data.default_collate([ex.tensor([1, 2]), ex.tensor([3])])
    ragged([
      [1, 2],  # 2
      [3],     # 1
    ], shape=(2, *))
    """
    first = batch[0]
    for kinds, collated in _RULES:
        if isinstance(first, kinds):
            for sample in batch:
                if not isinstance(sample, kinds):
                    raise DtypeError(
                        f"default_collate: samples are of different types, {type(first).__name__} and "
                        f"{type(sample).__name__}; make them alike, or pass a collate_fn"
                    )
            return collated(batch)
    raise DtypeError(
        f"default_collate: samples must be tensors, arrays, numbers, strings, tuples, lists or dicts of them, got "
        f"{type(first).__name__}; convert in the data set, or pass a collate_fn"
    )


def _tensor(data: Any) -> Tensor:
    array = np.asarray(data)
    if array.dtype.kind in "SUO":
        raise DtypeError(f"default_collate: an array of {array.dtype} cannot be a tensor; pass a collate_fn")
    return ops.as_tensor(array)


def _rows(batch: Sequence[Tensor]) -> Any:
    shape = batch[0].shape
    if all(row.shape == shape for row in batch):
        return ops.stack(list(batch))
    if all(row.ndim == len(shape) and row.shape[1:] == shape[1:] for row in batch):
        return ragged(batch)
    return list(batch)


def _arrays(batch: Sequence[Any]) -> Any:
    return _rows([_tensor(array) for array in batch])


def _numbers(batch: Sequence[Any]) -> Tensor:
    if any(isinstance(number, np.generic) for number in batch):
        return _tensor(batch)
    return ops.tensor(batch, dtype=float if any(isinstance(number, float) for number in batch) else None)


def _unchanged(batch: Sequence[Any]) -> Sequence[Any]:
    return batch


def _mappings(batch: Sequence[Mapping[Any, Any]]) -> Any:
    first = batch[0]
    for sample in batch:
        if sample.keys() != first.keys():
            raise ShapeError(
                f"default_collate: samples have different keys, {list(first)} and {list(sample)}; make them alike, or "
                "pass a collate_fn"
            )
    return _mapping_like(first, {key: default_collate([sample[key] for sample in batch]) for key in first})


def _sequences(batch: Sequence[Sequence[Any]]) -> Any:
    sizes = {len(sample) for sample in batch}
    if len(sizes) > 1:
        kind = type(batch[0]).__name__
        raise ShapeError(
            f"default_collate: samples are {kind}s of different lengths, {sorted(sizes)}, and {kind}s are collated "
            "member by member; return ex.tensor(sample) from the data set to have a ragged tensor of them, or pass a "
            "collate_fn"
        )
    return _sequence_like(batch[0], map(default_collate, zip(*batch, strict=True)))


def _mapping_like(model: Mapping[Any, Any], entries: dict[Any, Any]) -> Any:
    if type(model) is dict:
        return entries
    try:
        if isinstance(model, MutableMapping):  # a copy keeps what its constructor was told, as for a defaultdict
            like = copy.copy(model)
            like.update(entries)
            return like
        return type(model)(entries)  # type: ignore[call-arg] # most mappings can be made from one
    except TypeError:
        return entries


def _sequence_like(model: Any, members: Iterable[Any]) -> Any:
    if hasattr(model, "_fields"):
        return type(model)(*members)
    entries = list(members)
    if isinstance(model, tuple):
        return entries
    try:
        return type(model)(entries)
    except TypeError:
        return entries


# In this order: NumPy's str_ is both a str and a number.
_RULES: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Tensor, _rows),
    (RaggedTensor, list),  # a second ragged level
    ((str, bytes), _unchanged),
    (np.ndarray, _arrays),
    ((np.generic, float, int), _numbers),
    (Mapping, _mappings),
    (Sequence, _sequences),
)
