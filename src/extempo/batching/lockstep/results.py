"""Results of samples that ran in lockstep, taken apart: each sample's own tensors, all of them results of one node."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ...backends.selection import empty
from ...core.context import CONTEXT
from ...core.graph import Node, Pick
from ...core.source_location import user_line
from ...core.storage import Array
from ...core.tensor import Tensor, wrap
from ...core.types import TensorType
from ...errors import UnsupportedError
from ..gradients import BatchRun
from .lanes import Lanes
from .values import EACH, PAIRS, RAGGED, SHARED

_SMALL = 512  # bytes of a result, of which as many as there are samples may stay if one of them does


class SamplesApart(BatchRun, abstract=True):
    """The node that takes values of all samples apart; `starts`: of each sample along dimension `dim`."""

    @classmethod
    def vjp(cls, g: tuple[Any, ...], y: Any, *inputs: Any, dim: int, starts: list[int]) -> list[Any]:  # type: ignore[override] # another node
        if CONTEXT.get().grad:
            raise UnsupportedError(
                "backward: create_graph=True through ex.batch, whose gradient is not recorded; use "
                "ex.batch(fn, debug=True) for second derivatives"
            )
        (t,) = [x._type if isinstance(x, Tensor) else x for x in inputs]
        whole = empty(t)
        for i, part in enumerate(g):
            own = (slice(None),) * dim + (slice(starts[i], starts[i + 1]),)
            whole[own] = 0 if part is None else part._array.reshape(whole[own].shape)
        return [wrap(whole, t)]

    @staticmethod
    def stacked_vjp(g: Array, node: Node) -> Array:
        """The gradient of what was taken apart from those of all parts, which have one shape."""
        dim = node.attrs["dim"]
        return (g if dim == 0 else np.concatenate(list(g), dim)).reshape(node.inputs[0].type.shape)

    @classmethod
    def freeing(cls, node: Node) -> None:
        """It has no history of batches."""

    @classmethod
    def freed(cls, node: Node) -> None:
        """There is nothing to free."""


def taken_apart(value: Any, form: str, t: TensorType, lanes: Lanes) -> list[Tensor]:
    """The tensors of each sample, row-major, with memory of their own."""
    if form == EACH:
        return list(value)
    if form == SHARED:
        value = value.expand(lanes.n, *t.shape)
    if form == PAIRS:
        whole, dim, starts = value._flat, 0, lanes.pairs(*t.shape[:2]).rows.offsets.tolist()
    elif form == RAGGED:
        whole, dim, starts = value._flat, value._dim - 1, value._rows.offsets.tolist()
    else:
        whole, dim, starts = value, 0, list(range(lanes.n + 1))
    array = whole._values()
    if form in (RAGGED, PAIRS):
        before = (slice(None),) * dim
        parts = [np.array(array[(*before, slice(*ends))], order="C") for ends in pairwise(starts)]
        if form == PAIRS:
            sizes = zip(lanes.numbers(t.shape[0]).tolist(), lanes.numbers(t.shape[1]).tolist(), strict=True)
            parts = [part.reshape(*own, *t.shape[2:]) for part, own in zip(parts, sizes, strict=True)]
        made = [wrap(part, TensorType(part.shape, t.dtype)) for part in parts]
    else:
        made = _rows_apart(array, t)
    if whole.requires_grad and CONTEXT.get().grad:
        where = user_line()
        types = tuple([one._type for one in made])
        node = Node(SamplesApart, (whole._own_node(),), {"dim": dim, "starts": starts}, types, (), where)
        for i, one in enumerate(made):
            one._history = Node(Pick, (node,), {"index": i}, one._type, (), where)
    return made


def _rows_apart(array: Array, t: TensorType) -> list[Tensor]:
    """Small rows lie in one piece of memory, whose parts nobody else sees; others each by itself."""
    if array.nbytes <= _SMALL * len(array):
        array = np.array(array, order="C")
        return [wrap(array[i, ...], t) for i in range(len(array))]
    return [wrap(np.array(row, order="C"), t) for row in array]
