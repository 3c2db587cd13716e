"""What the gradients of traced ops read, and so what has to be kept for a later backward."""

from __future__ import annotations

from ..core.trace_tree import TraceOp


def reads(step: TraceOp) -> tuple[int, ...]:
    """The refs that the gradient of a tracked op reads: value ids of its results, and refs of inputs.

    A ref may be a view; what has to be kept is then what the view looks into.
    """
    refs: list[int] = []
    for position in step.read_positions:
        if position > 0:
            refs.append(step.refs[position - 1])
        elif position < 0:
            refs.append(step.place - 1 - position)
        else:
            refs += range(step.place, step.place + step.n_results)
    return tuple(refs)
