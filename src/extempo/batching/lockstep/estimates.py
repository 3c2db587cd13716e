"""What samples take in lockstep, and as a plain loop, by what core/costs.py says and by their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import costs
from ...core.context import CONTEXT
from ...core.graph import Pick
from ...exporting.sizes import SizeExpr
from .lanes import Lanes
from .rules import each
from .steps import LaneStep, Steps
from .trace import SampleProgram

_APART = 3  # times an op in a loop, for one that runs for one sample after the other: values are taken apart and joined


def seconds(program: SampleProgram, lanes: Lanes) -> tuple[float, float]:
    """In lockstep, and as a plain loop, without what both do alike."""
    tracked = CONTEXT.get().grad and (any(t.requires_grad for t in program.weights) or any(program.tracked))
    together, looped = _of_steps(program.steps, lanes, lanes.n, tracked)
    return costs.LOCKSTEP[tracked] + together, looped


def _of_steps(steps: Steps, lanes: Lanes, n: int, tracked: bool) -> tuple[float, float]:
    together = looped = 0.0
    for step in steps.steps:
        if step.graphs:
            of_turns = _of_turns(step, lanes, tracked)
            together, looped = together + of_turns[0], looped + of_turns[1]
        elif step.op is not Pick:
            looped += n * costs.LOOPED_OP[tracked]
            together += costs.LOCKSTEP_OP[tracked] + (
                _APART * n * costs.LOOPED_OP[tracked] if step.rule is each else 0.0
            )
    return together, looped


def _of_turns(step: LaneStep, lanes: Lanes, tracked: bool) -> tuple[float, float]:
    length: Any = step.types[step.attrs["n_carried"]].shape[0]
    lengths = lanes.numbers(length) if isinstance(length, SizeExpr) else np.full(lanes.n, length)
    n_turns, n_all = int(lengths.max(initial=0)), int(lengths.sum())
    body = step.cache
    n_ops = sum(1 for _ in body.steps.every())
    looped = n_all * n_ops * costs.LOOPED_TURN_OP[tracked]
    if body.levels is not None:
        return n_turns * costs.LOCKSTEP_TURN[tracked] + len(body.before) * costs.LOCKSTEP_OP[tracked], looped
    one_by_one = sum(one.rule is each for one in body.turn)
    turn = len(body.turn) * costs.LOCKSTEP_TURN_OP[tracked]
    return n_turns * turn + _APART * one_by_one * n_all * costs.LOOPED_OP[tracked], looped
