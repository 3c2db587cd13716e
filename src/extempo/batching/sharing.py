"""Inputs that are one and the same tensor in all calls that run together: they are shared, not stacked.

Which inputs those are is decided for the calls of one kind in one flush, by what these calls are given and nothing
else. So it makes no difference whether code takes a weight as an argument or finds it in a closure, a global or an
attribute: plans read it as they read a captured tensor, and its gradient is summed over all calls once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np

from ..core.graph import Node
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import count
from .agenda import Calls
from .kinds import SharedTensor

_NOBODY_ELSE = 2  # references to a tensor that only a table has: the table's, and that of the one who counts
_SMALL = 8  # elements
_FEW_CALLS = 4  # for each choice of large tensors, below which calls are not split: batches would be too small


class SharedInputs(NamedTuple):
    """Which inputs calls share, and those inputs, in order."""

    which: tuple[bool, ...]
    tensors: list[SharedTensor]


def shared_columns(refs: Any, outside: Container[int]) -> tuple[bool, ...]:
    """Which columns of value ids, a row for each call, hold one value from outside; of a single call none does."""
    n, n_columns = refs.shape
    if n == 1:
        return (False,) * n_columns
    first, last = refs[:: n - 1].tolist()
    ends = enumerate(zip(first, last, strict=True))
    return tuple([a == b and a in outside and bool((refs[:, j] == a).all()) for j, (a, b) in ends])


class SameViews:
    """Views of one tensor that each sample has made for itself, as `w.T` is: which value stands for all of them.

    Gradients of all go to one view, and on to the tensor that they are views of. So one that somebody could still ask
    for its own gradient is left as it is.
    """

    def __init__(self) -> None:
        self._first: dict[Any, int] = {}  # by what is seen
        self._same: dict[int, int] = {}  # by value: the one that stands for it

    def add(self, values: Iterable[int], outside: Mapping[int, Tensor]) -> None:
        """Look at tensors from outside that are new."""
        for value in values:
            t = outside[value]
            # Small ones without gradients cost less to stack than to compare.
            if t._alias is None or (type(t._history) is not Node and count(t._type.shape) < _SMALL):
                continue
            del t  # who else has it is counted
            if _is_free(outside, value):
                t = outside[value]
                seen = id(t._alias.base), t._type, t.requires_grad, _memory_of(t._values())
                first = self._first.setdefault(seen, value)
                if first != value:
                    self._same[value] = first

    def replace(self, waiting: Sequence[Calls]) -> bool:
        """Let calls mean the values that stand for others; whether there are any."""
        same = self._same
        if same:
            for calls in waiting:
                calls.refs = [same.get(ref, ref) for ref in calls.refs]
        return bool(same)


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
    if not large or n < 2 * _FEW_CALLS or calls.kinds:
        return [calls]
    refs = calls.inputs()
    weights = [j for j in large if all(value in outside for value in set(refs[:, j].tolist()))]
    parts = members_by(refs, weights)
    if len(parts) == 1 or len(parts) * _FEW_CALLS > n:
        return [calls]
    return [_some_of(calls, refs, part) for part in parts]


def members_by(refs: Any, columns: Sequence[int]) -> list[Any]:
    """The numbers of calls by what they are given as some of their inputs."""
    if not columns or (refs[:, columns] == refs[0, columns]).all():
        return [np.arange(len(refs))]
    choices, which = np.unique(refs[:, columns], axis=0, return_inverse=True)
    return [np.flatnonzero(which.reshape(-1) == k) for k in range(len(choices))]


def _some_of(calls: Calls, refs: Any, members: Any) -> Calls:
    made = Calls(calls.kind)
    made.refs = refs[members].reshape(-1).tolist()
    for i in members.tolist():
        made.firsts.append(calls.firsts[i])
        made.samples.append(calls.samples[i])
        made.wheres.append(calls.wheres[i])
    return made
