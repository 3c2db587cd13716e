"""The inputs of one op call, resolved against the trace: for each a reference (value, leaf or number) and its type, and
which leaves are new. Thrown away if the op runs eagerly.
"""

from __future__ import annotations

from typing import Any

from ..core.context import ExecutionContext
from ..core.tensor import Tensor
from ..core.trace_tree import NONE, NUMBER, LeafKind


class OpCall:
    """The inputs of an op as they are on the tape, before it is known whether the op will be."""

    def __init__(self) -> None:
        self.inputs: tuple[Any, ...] = ()
        self.refs: list[int] = []
        self.kinds: list[Any] = []
        self.numbers: list[Any] = []
        self.fresh: list[Tensor] = []  # leaves that are new
        self.new_leaves: list[LeafKind] = []
        self.needs = 0
        self.cut: Any = None

    def baked_refs(self) -> tuple[int, ...]:
        """The same with numbers as part of the key."""
        return tuple([NONE if ref >= NUMBER else ref for ref in self.refs])


def grad_key(mode: ExecutionContext) -> bool | None:
    """Whether gradients are recorded; None if they are not in inference mode, which results remember."""
    return mode.grad or (None if mode.inference else False)
