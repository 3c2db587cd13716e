"""A trace made by hand: ops that an executor has traced, without a compiled function around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from extempo.core.context import CONTEXT
from extempo.core.trace_tree import TraceNode
from extempo.tracing.executor import TraceExecutor
from extempo.tracing.planner import op_by_op
from extempo.tracing.policy import new_policy
from extempo.tracing.segment import Counters


def new_executor(root: TraceNode | None = None, decide: Any = op_by_op, **limits: Any) -> TraceExecutor:
    """One that stands at a node of a trace tree; `decide` says which segments get plans."""
    counters = Counters("by hand", lambda text: None, new_policy())
    return TraceExecutor(TraceNode() if root is None else root, counters, decide, **limits)


@contextmanager
def tracing(executor: TraceExecutor | None) -> Iterator[Any]:
    """Inside, the ops of this thread go to the executor; None: they run eagerly."""
    before = CONTEXT.get()
    CONTEXT.set(before.but(recording=executor))
    try:
        yield executor
    finally:
        CONTEXT.set(before)


def names(executor: TraceExecutor) -> list[str]:
    """The ops on its trace."""
    return [step.op.name for step in executor.trace.makers]
