"""Inputs that are one and the same tensor in all calls that run together: they are shared, not stacked.

Which inputs those are is decided for the calls of one kind in one flush, by what these calls are given and nothing
else. So it makes no difference whether code takes a weight as an argument or finds it in a closure, a global or an
attribute: plans read it as they read a captured tensor, and its gradient is summed over all calls once.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np

from .agenda import Calls
from .kinds import SharedTensor

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
