"""What the instructions of a plan are, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..backends.llvm.plans.clusters import Nodes
from ..backends.llvm.plans.expressions import Expression
from ..core.trace_tree import TraceOp
from ..core.types import TensorType


class Description(NamedTuple):
    """One instruction."""

    kind: str
    results: list[TensorType]
    step: int = -1
    nodes: Nodes = ()
    before: tuple[str, ...] = ()  # what is interleaved with these nodes
    after: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()  # of the nodes: the traced ops that they belong to, -1 where that is not known

    def text(self, steps: Sequence[TraceOp]) -> str:
        what = ", ".join(map(str, self.results))
        if self.nodes:
            return f"{self.kind}: {', '.join(self.names())} -> {what}"
        name = f" {steps[self.step].op.name}" if self.step >= 0 else ""
        return f"{self.kind}{name} -> {what}"

    def names(self) -> list[str]:
        """What is computed, in order, in an instruction that is made of nodes."""
        return [*self.before, *[_name(expression) for expression, _ in self.nodes], *self.after]


def _name(expression: Expression) -> str:
    """`mul`, or `gradient` of something."""
    return repr(expression).removeprefix("<Expression ").partition("(")[0]
