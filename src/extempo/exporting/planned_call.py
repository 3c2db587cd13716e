"""PlannedCall: a whole program, on inputs of certain types, as one call of one plan with next to no Python around it.

There is one where the graph is a single stretch that all results come from. What is compared at each call is what the
plan depends on: how the inputs lie in memory, and that the weights are the arrays that they were. A call that does not
fit goes the way that every program can go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from ..core.context import ExecutionContext
from ..core.storage import Array
from ..core.tensor import Tensor, wrap
from .runner import GraphRunner, may_plan
from .stretches import PlannedLayout, is_plain


class PlannedCall:
    """`run(tensors, weights, mode)` gives the graph's outputs, or None where this call does not fit."""

    __slots__ = ("_arrays", "_inputs", "_layout", "_outputs", "_weights", "sizes")

    def __init__(
        self,
        layout: PlannedLayout,
        order: Sequence[int],
        outputs: list[int],
        arrays: list[Array],
        counts: tuple[int, int],
    ) -> None:
        """`order`: which of `arrays` each of the plan's inputs is; `outputs`: which of its results each output is.

        `counts`: how many of `arrays` are those of inputs, other ones at each call, and of weights; the rest stays.
        """
        n_inputs, n_weights = counts
        self.sizes: Mapping[str, int] = {}
        self._layout = layout
        self._inputs = [(at, leaf, arrays[leaf].strides) for at, leaf in enumerate(order) if leaf < n_inputs]
        self._arrays: list[Any] = [None if leaf < n_inputs else arrays[leaf] for leaf in order]  # is only copied
        self._weights = arrays[n_inputs : n_inputs + n_weights]
        self._outputs = outputs

    @classmethod
    def found(
        cls, runner: GraphRunner, sizes: Mapping[str, int], tensors: Sequence[Tensor], n_inputs: int
    ) -> PlannedCall | None:
        """That of a graph which has just run with these tensors; None if it is not a single plan."""
        found = runner.only_stretch(tensors, sizes)
        if found is None:
            return None
        stretch, folded = found
        if len(stretch.planned) != 1 or not {*runner.outputs} <= {*stretch.writes}:
            return None
        (layout,) = stretch.planned
        arrays = [t._values() for t in (*tensors, *folded.values())]
        slots = [*runner.leaf_slots, *folded]
        read = [slots.index(slot) for slot in stretch.reads]
        if not layout.fits([arrays[i] for i in read]):
            return None
        outputs = [stretch.writes.index(slot) for slot in runner.outputs]
        counts = n_inputs, len(tensors) - n_inputs
        made = cls(layout, [read[i] for i in layout.inputs], outputs, arrays, counts)
        made.sizes = sizes
        return made

    def run(
        self, tensors: Sequence[Tensor], weights: Mapping[str, Tensor], mode: ExecutionContext
    ) -> list[Tensor] | None:
        """The outputs for tensors whose types are known to be those of this call."""
        if not may_plan(mode) or not all(map(is_, [w._data for w in weights.values()], self._weights)):
            return None
        arrays = self._arrays.copy()
        for at, leaf, strides in self._inputs:
            array = tensors[leaf]._values()
            if array.strides != strides or not is_plain(array):
                return None
            arrays[at] = array
        layout = self._layout
        results = layout.run(arrays, layout.numbers)
        if type(results) is not list:
            return None
        made = [wrap(result, type_) for result, type_ in zip(results, layout.types, strict=True)]
        return [made[i] for i in self._outputs]
