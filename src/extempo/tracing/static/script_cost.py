"""What a call of a static function takes by plans, and op by op: from the actions of its script and core/costs.py.

The structure is fixed, so it is known when the script is made which takes less, and nothing is tried.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core import costs
from ...core.trace_tree import BackwardCost, TraceOp
from .backwards import PlannedBackward
from .script import Action
from .trace_actions import Extend, FlushNow, Leave


def script_cost(actions: Sequence[Action]) -> tuple[float, float]:
    """Seconds (by plans, op by op), without what both do alike."""
    by_plans, op_by_op = costs.STATIC_CALL, 0.0
    steps: list[TraceOp] = []
    for action in actions:
        if isinstance(action, Extend):
            steps += action.makers
            by_plans += costs.STATIC_STRETCH + costs.STATIC_LEAF * len(action.leaves)
        elif isinstance(action, FlushNow):
            by_plans += costs.PLAN_RUN
        elif isinstance(action, PlannedBackward | Leave):
            passed = [step for step in steps if step.tracked]
            cost = BackwardCost.of(passed)
            by_plans += cost.planned
            op_by_op += cost.eager
    for step in dict.fromkeys(steps):  # one with several results stands there for each
        work = costs.work_of(step.op, step.kinds, step.type)
        by_plans += costs.planned_work(step.op, work)
        op_by_op += costs.overhead_of(step.op, step.tracked) + work
    return by_plans, op_by_op
