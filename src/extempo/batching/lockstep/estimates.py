"""What samples take in lockstep, and as a plain loop, by what core/costs.py says and by their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import costs
from ...core.context import CONTEXT
from ...core.graph import Pick
from ...core.storage import Array
from ...core.types import TensorType
from ...exporting.sizes import SizeExpr
from .lanes import Lanes
from .pairs import pairs
from .rules import each, shared
from .steps import LaneStep, Steps
from .trace import SampleProgram
from .values import SHARED

_APART = 3  # times an op in a loop, for one that runs for one sample after the other: values are taken apart and joined


def seconds(program: SampleProgram, lanes: Lanes) -> tuple[float, float]:
    """In lockstep, and as a plain loop, without what both do alike."""
    tracked = CONTEXT.get().grad and (any(t.requires_grad for t in program.weights) or any(program.tracked))
    together, looped = _of_steps(program.steps, lanes, lanes.n, tracked)
    if tracked:  # gradients of arguments are taken apart
        together += lanes.n * sum(program.tracked) * costs.LOOPED_OP[tracked]
    return costs.LOCKSTEP[tracked] + together, looped


def _of_steps(steps: Steps, lanes: Lanes, n: int, tracked: bool) -> tuple[float, float]:
    together = looped = 0.0
    for step in steps.steps:
        if step.graphs:
            of_turns = _of_turns(step, lanes, tracked)
            together, looped = together + of_turns[0], looped + of_turns[1]
        elif step.op is not Pick:
            one = costs.LOOPED_OP[tracked]
            looped += n * (one + costs.LOOPED_WEIGHT_BYTE[tracked] * _weight_bytes(step))
            together += one if step.rule is shared else costs.LOCKSTEP_OP[tracked]
            if step.rule is each or (step.rule is pairs and step.op.family == "contraction"):
                together += _APART * n * one  # products of own matrices are made one after the other, too
            elif step.op.family == "recurrence":
                lengths = _lengths(step.types[0].shape[0], lanes)
                together += int(lengths.max(initial=0)) * costs.SEQUENCE_TURN[tracked]
                looped += int(lengths.sum()) * costs.SEQUENCE_TURN[tracked]
    return together, looped


def _weight_bytes(step: LaneStep) -> int:
    """Those of tensors that all samples share, where others read them."""
    if step.op.family not in ("contraction", "index", "recurrence") or step.rule is shared:
        return 0
    types = [t for t, form in zip(step.types, step.forms, strict=True) if form == SHARED and isinstance(t, TensorType)]
    return sum(t.numel() * t.dtype.itemsize for t in types)


def _lengths(length: Any, lanes: Lanes) -> Array:
    return lanes.numbers(length) if isinstance(length, SizeExpr) else np.full(lanes.n, length)


def _of_turns(step: LaneStep, lanes: Lanes, tracked: bool) -> tuple[float, float]:
    lengths = _lengths(step.types[step.attrs["n_carried"]].shape[0], lanes)
    n_turns, n_all = int(lengths.max(initial=0)), int(lengths.sum())
    body = step.cache
    n_ops = sum(1 for _ in body.steps.every())
    looped = n_all * n_ops * costs.LOOPED_TURN_OP[tracked]
    if body.levels is not None:
        return n_turns * costs.LOCKSTEP_TURN[tracked] + len(body.before) * costs.LOCKSTEP_OP[tracked], looped
    one_by_one = sum(one.rule is each for one in body.turn)
    turn = len(body.turn) * costs.LOCKSTEP_TURN_OP[tracked]
    return n_turns * turn + _APART * one_by_one * n_all * costs.LOOPED_OP[tracked], looped
