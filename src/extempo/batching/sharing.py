"""Inputs that are one and the same tensor in all calls that run together: they are shared, not stacked.

Which inputs those are is decided for the calls of one kind in one flush, by what these calls are given and nothing
else. So it makes no difference whether code takes a weight as an argument or finds it in a closure, a global or an
attribute: plans read it as they read a captured tensor, and its gradient is summed over all calls once.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np

from ..core.graph import Node
from ..core.storage import Array
from ..core.tensor import Tensor
from .agenda import Calls
from .kinds import SharedTensor

_NOBODY_ELSE = 2  # references to a tensor that only a table has: the table's, and that of the one who counts
_FEW_CALLS = 4  # for each choice of large tensors, below which calls are not split: batches would be too small


class SharedInputs(NamedTuple):
    """Which inputs calls share, and those inputs, in order."""

    which: tuple[bool, ...]
    tensors: list[SharedTensor]


def shared_columns(refs: Any, outside: Container[int]) -> tuple[bool, ...]:
    """Which columns of value ids, a row for each call, hold one value from outside; of a single call none does."""
    first, last = refs[0].tolist(), refs[-1].tolist()
    if len(refs) == 1:
        return (False,) * len(first)
    ends = enumerate(zip(first, last, strict=True))
    return tuple([a == b and a in outside and bool((refs[:, j] == a).all()) for j, (a, b) in ends])


def merge_views(refs: Any, outside: Mapping[int, Tensor]) -> None:
    """Let calls mean one value where each has a view of its own of the same memory, as `w.T` in every sample is.

    Gradients of all of them then go to one view, and on to the tensor that they are views of. So one that somebody
    could still ask for its own gradient is left as it is.
    """
    first, last = refs[0].tolist(), refs[-1].tolist()
    for j, (a, b) in enumerate(zip(first, last, strict=True)):
        if a != b and a in outside and b in outside and _same_view(outside[a], outside[b]):
            values = set(refs[:, j].tolist())
            if all(v in outside and _is_free(outside, v) and _same_view(outside[a], outside[v]) for v in values):
                refs[:, j] = a


def _same_view(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors are views of one tensor, and of the same elements in the same order."""
    if x._alias is None or y._alias is None or x._alias.base is not y._alias.base or x._type != y._type:
        return False
    return x.requires_grad == y.requires_grad and _memory_of(x._values()) == _memory_of(y._values())


def _is_free(outside: Mapping[int, Tensor], value: int) -> bool:
    history = outside[value]._history
    return type(history) is not Node or (history.extra is None and getrefcount(outside[value]) == _NOBODY_ELSE)


def _memory_of(array: Array) -> tuple[Any, ...]:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def row_major(arrays: Sequence[Array]) -> list[Array]:
    """The arrays, with copies in place of those that are not row-major: one for each that is in memory once."""
    copies: dict[Any, Array] = {}
    made = []
    for array in arrays:
        if not array.flags.c_contiguous:
            key = _memory_of(array)
            if key not in copies:
                copies[key] = np.ascontiguousarray(array)
            array = copies[key]
        made.append(array)
    return made


def split_by_weights(calls: Calls, outside: Container[int]) -> list[Calls]:
    """Calls that are given different large tensors from outside, as those of several layers are: by tensors.

    Where almost every call has one of its own, they stay together, and are stacked.
    """
    large, n = calls.kind.large, len(calls.firsts)
    if not large or n < 2 * _FEW_CALLS:
        return [calls]
    refs = calls.inputs()
    weights = [j for j in large if all(value in outside for value in set(refs[:, j].tolist()))]
    choices, which = np.unique(refs[:, weights], axis=0, return_inverse=True)
    if len(choices) == 1 or len(choices) * _FEW_CALLS > n:
        return [calls]
    return [_some_of(calls, refs, np.flatnonzero(which.reshape(-1) == k)) for k in range(len(choices))]


def _some_of(calls: Calls, refs: Any, members: Any) -> Calls:
    made = Calls(calls.kind)
    made.refs = refs[members].reshape(-1).tolist()
    for i in members.tolist():
        made.firsts.append(calls.firsts[i])
        made.samples.append(calls.samples[i])
        made.wheres.append(calls.wheres[i])
    return made
