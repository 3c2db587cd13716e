"""What things cost: seconds per call, op, byte, multiplication and kernel, as constants.

Whether to trace, to plan or to stay eager follows from these and from counts and sizes alone, so that two runs of a
program do the same on any machine, busy or not. They are of a machine of 2024 with one thread; decisions depend on how
they compare with one another. `python benchmarks/fit_costs.py` measures them and says which differ on this machine.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from .types import TensorType

if TYPE_CHECKING:
    from .op import Op

# One op that runs eagerly, beside its arithmetic and the user's Python
EAGER_ELEMENTWISE = 0.3e-6
EAGER_VIEW = 0.3e-6
EAGER_OP = 0.6e-6  # any other
EAGER_NODE = 0.35e-6  # linking its node
EAGER_BACKWARD_ELEMENTWISE = 0.3e-6  # passing its node
EAGER_BACKWARD = 1.0e-6
EAGER_ENGINE = 11e-6  # a backward, beside that
BACKWARD_WORK = 2.0  # of the arithmetic of the op itself
BODY_OP = 2.0e-6  # the user's Python around it, modules included: compiled calls run that, too

# A compiled call
CALL = 5.0e-6  # around it
TRACED_OP = 0.25e-6  # along a known edge
NEW_OP = 15e-6  # along a new one
PLAN_RUN = 3.3e-6  # ending a segment and running its plan
PLANNED_BACKWARD = 7.0e-6  # the same for a backward, with what is around it
LEAVE = 4.0e-6  # returning what a loss outside may go on with
REPLAYED_OP = 2.5e-6  # a traced op that has no plan, with what it takes eagerly
CLOSE = 10e-6  # ending a trace before its time, and beginning another one
MATERIALISED_NODE = 2.0e-6  # of a traced op
EAGER_IN_TRACE = 3.0e-6  # an op that cannot be traced, beside what it takes eagerly
WRITE = 4.0e-6  # into memory, beside what it takes eagerly

# What native code leaves to Python, beside that
PYTHON_OP = 4.0e-6
PYTHON_SEGMENT = 6.0e-6
PYTHON_BACKWARD = 15e-6
ACCUMULATION = 2.0e-6  # of a gradient to one that is there

# A call of a static function
STATIC_CALL = 6.0e-6  # by plans, beside what it is op by op
STATIC_STRETCH = 1.0e-6  # ops that are traced together
STATIC_LEAF = 0.3e-6  # a tensor from outside that they read

# ex.batch, without gradients and with them
BATCHED_CALL = (1.5e-6, 2.0e-6)  # recording a call of an op or cell
BATCH = (25e-6, 30e-6)  # running several calls as one, beside their arithmetic
SIZED_BATCH = (80e-6, 200e-6)  # the same for calls of several sizes
SIZED_PRODUCT = (8e-6, 20e-6)  # a call among those of several sizes that are multiplied one after the other
SIZED_LAYER_OP = (8e-6, 20e-6)  # an op of a layer on sequences of several sizes, for all of them
SAMPLE = 8e-6  # running a sample beside others, whatever it calls
LOOPED_OP = (1.5e-6, 4.0e-6)  # an op in a plain loop, the Python of its cell included
LOOPED_WEIGHT_BYTE = (1 / 30e9, 1 / 7e9)  # of a weight that an op in a plain loop reads: packed, and its gradient added
LOCKSTEP = (60e-6, 130e-6)  # running samples in lockstep, whatever they compute
LOCKSTEP_OP = (8e-6, 20e-6)  # one op for all of them
SEQUENCE_TURN = (1.6e-6, 4e-6)  # of a recurrent layer, for one sample or for all that are not at their end
LOCKSTEP_TURN = (12e-6, 30e-6)  # a turn of a loop by native plans
LOCKSTEP_TURN_OP = (4e-6, 8e-6)  # an op of a turn that runs op by op
LOOPED_TURN_OP = (1.0e-6, 2.2e-6)  # an op of a turn of a plain loop

# Planning
PLAN = 0.2e-3
PLANNED_OP = 20e-6
PLANNING_PIECE = 8e-6  # between two moments at which planning may pause
RANGE_OP = 2e-3  # planning a range of sizes: three plans, and what follows from them
NEW_SIZE = 1e-3  # working out what a new size leads to, at most, about
KERNEL = 10e-3  # LLVM, for a fused kernel
LIBRARY = 25e-3  # LLVM, for what runs several kernels in one instruction

# Arithmetic
BYTE = 1 / 60e9
MULTIPLICATION = 1 / 45e9
PLANNED_WORK = 0.7  # of the arithmetic, by a plan: fused ops do not write what only they read


def planned_work(op: type[Op], work: float) -> float:
    """Seconds of an op's arithmetic as part of a plan."""
    return work if op.family == "contraction" else PLANNED_WORK * work


def work_of(op: type[Op], kinds: tuple[Any, ...], type_: Any) -> float:
    """Seconds of arithmetic of an op on inputs of these kinds."""
    if op.aliases_input:
        return 0.0
    types = [t for t in kinds if isinstance(t, TensorType)]
    results = type_ if type(type_) is tuple else (type_,)
    if op.family == "contraction":  # the sizes of both factors and of the result multiplied are (m n k) squared
        return MULTIPLICATION * sqrt(prod([prod(t.shape) for t in (*types[:2], results[0])]))
    return BYTE * sum([prod(t.shape) * t.dtype.itemsize for t in (*types, *results)])


def replayed_seconds(op: type[Op], kinds: tuple[Any, ...], type_: Any) -> float:
    """Seconds that a traced op takes longer by itself than as part of a plan."""
    work = work_of(op, kinds, type_)
    return REPLAYED_OP + work - planned_work(op, work)


def overhead_of(op: type[Op], tracked: bool) -> float:
    """Seconds that eager mode takes for an op beside its arithmetic."""
    node = EAGER_NODE if tracked else 0.0
    if op.family == "elementwise":
        return EAGER_ELEMENTWISE + node
    return (EAGER_VIEW if op.aliases_input else EAGER_OP) + node


def backward_overhead_of(op: type[Op]) -> float:
    """Seconds that the engine takes for an op's node beside its arithmetic."""
    return EAGER_BACKWARD_ELEMENTWISE if op.family == "elementwise" else EAGER_BACKWARD
