"""Loops of programs whose bodies are single plans: each turn is one native call, with no tensors in between.

A scan reads the rows of its inputs, and writes those of its stacked results, where they lie. What does not fit (a body
that is more than one plan or has none yet, inputs that lie otherwise, a plan that ends early) is left to the functions
of `control_flow`, which every loop can go by: None says so, and nothing has changed then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.storage import Array
from ..core.tensor import Tensor, wrap
from ..core.types import type_of_array

if TYPE_CHECKING:
    from .runner import GraphRunner


class PlannedBody:
    """A graph that is one plan, as a function of the arrays of its leaves."""

    __slots__ = ("_fits", "_fixed", "_run", "inputs", "leaves", "numbers", "outputs", "types")

    def __init__(self, runner: GraphRunner, sizes: Mapping[str, int]) -> None:
        """ValueError: it is not one plan."""
        found = runner.only_stretch((), sizes)
        if found is None or len(found[0].planned) != 1:
            raise ValueError("it is not one plan")
        stretch, folded = found
        layout = stretch.planned[0]
        leaf_of = {slot: i for i, slot in enumerate(runner.leaf_slots)}
        self._fixed = [folded[slot]._values() if slot in folded else None for slot in stretch.reads]
        self._fits = layout.fits
        self._run: Any = layout.run
        self.leaves = [leaf_of.get(slot, -1) for slot in stretch.reads]  # which leaf each read is; -1: a fixed one
        self.inputs = layout.inputs  # of the plan: which of these reads
        self.numbers, self.types = layout.numbers, layout.types
        # Each output is a result of the plan, from 0 on, or a leaf, as -1 - i.
        writes = {slot: i for i, slot in enumerate(stretch.writes)}
        self.outputs = [writes[slot] if slot in writes else -1 - leaf_of[slot] for slot in runner.outputs]

    def arrays(self, leaves: Sequence[Array]) -> list[Array] | None:
        """The plan's inputs for these leaves; None if they do not fit."""
        read: list[Any] = [
            leaves[leaf] if leaf >= 0 else fixed for leaf, fixed in zip(self.leaves, self._fixed, strict=True)
        ]
        return [read[i] for i in self.inputs] if self._fits(read) else None

    def __call__(self, leaves: Sequence[Array]) -> list[Array] | None:
        """The outputs; None if the plan does not fit, or ended early."""
        arrays = self.arrays(leaves)
        results = None if arrays is None else self._run(arrays, self.numbers)
        if type(results) is not list:
            return None
        return [results[i] if i >= 0 else leaves[-1 - i] for i in self.outputs]

    def rows(self, arrays: list[Array], places: list[Any], row: int, has_rows: bytes) -> list[Array] | None:
        """The plan's results, with inputs that `has_rows`, and results with a place, in that row of larger arrays."""
        results = self._run(arrays, self.numbers, places, row, has_rows)
        return results if type(results) is list else None


def planned_while(
    cond: GraphRunner,
    body: GraphRunner,
    sizes: Mapping[str, int],
    carried: Sequence[Tensor],
    operands: Sequence[Tensor],
) -> tuple[Tensor, ...] | None:
    """A while loop."""
    try:
        goes_on, turn = PlannedBody(cond, sizes), PlannedBody(body, sizes)
    except ValueError:
        return None
    given = [t._values() for t in (*carried, *operands)]
    n, arrays = len(carried), given
    while True:
        decision = goes_on(arrays)
        if decision is None:
            return None
        if not decision[0].item():
            break
        after = turn(arrays)
        if after is None:
            return None
        arrays = [*after, *arrays[n:]]
    return _tensors(arrays[:n], given, (*carried, *operands))


def planned_scan(
    body: GraphRunner, sizes: Mapping[str, int], inputs: Sequence[Tensor], counts: tuple[int, int], reverse: bool
) -> tuple[Tensor, ...] | None:
    """A scan or map; `counts`: how many of `inputs` are carried, and how many are gone along."""
    n_carried, n_xs = counts
    end = n_carried + n_xs
    try:
        turn = PlannedBody(body, sizes)
    except ValueError:
        return None
    given = [t._values() for t in inputs]
    xs = given[n_carried:end]
    length = len(xs[0])
    stacked = turn.outputs[n_carried:]
    if not length or any(-1 - i >= n_carried for i in stacked) or not all(x.flags.c_contiguous for x in xs):
        return None
    if any(n_carried <= -1 - i < end for i in turn.outputs[:n_carried] if i < 0):
        return None  # a slice is carried on
    steps = range(length - 1, -1, -1) if reverse else range(length)
    arrays = turn.arrays([*given[:n_carried], *(x[steps[0], ...] for x in xs), *given[end:]])
    if arrays is None:
        return None
    leaf_of = [turn.leaves[i] for i in turn.inputs]
    for at, leaf in enumerate(leaf_of):
        if n_carried <= leaf < end:
            arrays[at] = given[leaf]  # all rows
    has_rows = bytes([n_carried <= leaf < end for leaf in leaf_of])
    stacks = {i: np.empty((length, *turn.types[i].shape), turn.types[i].dtype.numpy) for i in stacked if i >= 0}
    before = {i: np.empty((length, *given[-1 - i].shape), given[-1 - i].dtype) for i in stacked if i < 0}
    places = [stacks.get(i) for i in range(len(turn.types))]
    users = [[at for at, leaf in enumerate(leaf_of) if leaf == j] for j in range(n_carried)]
    carried = given[:n_carried]
    for step in steps:
        results = turn.rows(arrays, places, step, has_rows)
        if results is None:
            return None
        for i, stack in before.items():  # what is carried, as it was before this turn
            stack[step] = carried[-1 - i]
        leaves = [*carried, *given[n_carried:]]
        carried = [
            leaves[-1 - i] if i < 0 else stacks[i][step, ...] if i in stacks else results[i]
            for i in turn.outputs[:n_carried]
        ]
        for array, readers in zip(carried, users, strict=True):
            if readers and array.strides != arrays[readers[0]].strides:
                return None
            for at in readers:
                arrays[at] = array
    # What is also a row of a stacked result gets memory of its own.
    last = [a.copy() if i in stacks else a for a, i in zip(carried, turn.outputs, strict=False)]
    every = stacks | before
    own = [every[i].copy() if i in stacked[:k] else every[i] for k, i in enumerate(stacked)]
    return _tensors([*last, *own], given, inputs)


def _tensors(arrays: Sequence[Array], given: Sequence[Array], tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Each array as a tensor; of one that was given that one, and of one that comes twice the same."""
    known = {id(array): tensor for array, tensor in zip(given, tensors, strict=True)}
    made = []
    for array in arrays:
        if id(array) not in known:
            known[id(array)] = wrap(array, type_of_array(array))
        made.append(known[id(array)])
    return tuple(made)
