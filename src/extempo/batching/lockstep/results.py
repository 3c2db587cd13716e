"""Results of samples that ran in lockstep, taken apart: each sample's own tensors, all of them results of one node."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.selection import empty
from ...core.context import CONTEXT
from ...core.graph import Node, Pick
from ...core.source_location import user_line
from ...core.storage import Array, Storage
from ...core.tensor import Tensor, wrap
from ...core.types import TensorType
from ...errors import UnsupportedError
from ..gradients import BatchRun
from .lanes import Lanes
from .values import EACH, RAGGED, SHARED


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

    @classmethod
    def freed(cls, node: Node) -> None:
        """There is nothing to free."""


def taken_apart(value: Any, form: str, t: TensorType, lanes: Lanes) -> list[Tensor]:
    """The tensors of each sample, row-major, with memory of their own."""
    if form == EACH:
        return list(value)
    if form == SHARED:
        value = value.expand(lanes.n, *t.shape)
    if form == RAGGED:
        whole, dim, starts = value._flat, value._dim - 1, value._rows.offsets.tolist()
    else:
        whole, dim, starts = value, 0, list(range(lanes.n + 1))
    array = whole._values()
    drops = form != RAGGED
    parts = [_own(array, dim, starts[i], starts[i + 1], drops) for i in range(lanes.n)]
    made = [wrap(part, TensorType(part.shape, t.dtype)) for part in parts]
    for one in made:
        one._memory = Storage(one._data)
    if whole.requires_grad and CONTEXT.get().grad:
        where = user_line()
        types = tuple([one._type for one in made])
        node = Node(SamplesApart, (whole._own_node(),), {"dim": dim, "starts": starts}, types, (), where)
        for i, one in enumerate(made):
            one._history = Node(Pick, (node,), {"index": i}, one._type, (), where)
    return made


def _own(array: Array, dim: int, start: int, stop: int, drops: bool) -> Array:
    part = array[start] if drops else array[(slice(None),) * dim + (slice(start, stop),)]
    return np.array(part, order="C")
