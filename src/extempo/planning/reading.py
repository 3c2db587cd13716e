"""What the gradients of recorded steps read, and so what has to be kept for a later backward."""

from __future__ import annotations

from ..tape import Step
from ..types import TensorType


def reads(step: Step) -> tuple[int, ...]:
    """The refs that the gradient of a tracked step reads: places of its results, and refs of inputs.

    A ref may be a view; what has to be kept is then what the view looks into.
    """
    refs: list[int] = []
    for position in read_positions(step):
        if position > 0:
            refs.append(step.refs[position - 1])
        elif position < 0:
            refs.append(step.place - 1 - position)
        else:
            refs += range(step.place, step.place + step.n_results)
    return tuple(refs)


def read_positions(step: Step) -> tuple[int, ...]:
    """What the eager engine saves: positions in (y, *inputs), or -1 - i for result i of several."""
    present = 0
    for i, kind in enumerate(step.kinds):
        present |= isinstance(kind, TensorType) << i
    masks = (step.needs, present)
    found = step.op._save_plans.get(masks)
    return step.op.save_plan(masks, step.kinds) if found is None else found
