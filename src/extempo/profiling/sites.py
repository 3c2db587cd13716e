"""Sites: the places of which a profile has records, with what runs there and to which phase its time belongs."""

from __future__ import annotations

from typing import NamedTuple

# What runs at a site.
MODULE, LABEL, OP, KERNEL, PLAN, INSTRUCTION, SEGMENT, NODE = (
    "module",  # a call of an nn.Module
    "label",  # what `record_function` names
    "op",  # an op as the program calls it: dispatch, or recording, around kernels
    "kernel",
    "plan",  # all that a plan does; its instructions have records of their own
    "instruction",
    "segment",  # what runs, or is bound, at the end of a traced stretch
    "node",  # one node of the graph in backward
)
BACKWARD, OPTIMIZER, DATA, PLANNING, BATCH, COMPILED, OTHER = (
    *("backward", "optimizer", "data", "planning", "batch", "compiled", "other"),
)

# Where a moment is booked, in the order of reports.
PYTHON = "Python"
DISPATCH = "dispatch and recording"
PLANNING_PHASE = "planning"
NATIVE = "native run"
BACKWARD_PHASE = "backward"
OPTIMIZER_PHASE = "optimizer"
DATA_PHASE = "data loading"
PHASES = (PYTHON, DISPATCH, PLANNING_PHASE, NATIVE, BACKWARD_PHASE, OPTIMIZER_PHASE, DATA_PHASE)

# A stage has all that runs inside of it, but for planning.
STAGES = {BACKWARD: BACKWARD_PHASE, OPTIMIZER: OPTIMIZER_PHASE, DATA: DATA_PHASE, PLANNING: PLANNING_PHASE}
_OWN_PHASES = {MODULE: PYTHON, LABEL: PYTHON, KERNEL: NATIVE, INSTRUCTION: NATIVE, NODE: BACKWARD_PHASE}


class Site(NamedTuple):
    """A place of which there are records."""

    name: str
    kind: str
    names_itself: bool = False  # the record's object is an op, whose name is meant


def phase_of(kind: str, stage: str | None) -> str:
    """Where the time of a site is booked that no site inside of it has; `stage`: the phase of what it is part of."""
    if stage is not None:
        return stage
    return STAGES.get(kind) or _OWN_PHASES.get(kind, DISPATCH)


def stage_of(kind: str, outer: str | None) -> str | None:
    """The stage that holds inside a site of that kind."""
    if outer == PLANNING_PHASE:
        return outer
    own = STAGES.get(kind)
    return own if outer is None or own == PLANNING_PHASE else outer
