"""Hooks: the Python functions of Extempo that a profile puts something around while it runs, and their kinds.

Native code needs none (`backends.llvm.calls.probes`). What stands here runs once a step or once a module rather than
once an op: calling modules, backward, steps of optimizers, loading of data, planning, LLVM.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import sites


class Hook(NamedTuple):
    """A function that is exchanged: an attribute of a class or module."""

    owner: Any
    attribute: str
    name: str
    kind: str
    keeps_first: bool = False  # its first argument is what runs


def hooks() -> list[Hook]:
    """Those of everything that is imported now."""
    from ..autograd import api, engine
    from ..core.tensor import Tensor
    from ..nn.module import Module

    found = [
        Hook(Module, "__call__", "module", sites.MODULE, keeps_first=True),
        Hook(next(cls for cls in Tensor.__mro__ if "backward" in vars(cls)), "backward", "backward", sites.BACKWARD),
        Hook(engine.BackwardEngine, "run", "engine", sites.BACKWARD),
        Hook(engine.BackwardEngine, "_visit", "node", sites.NODE),
    ]
    autograd = sys.modules["extempo.autograd"]
    for name in ("backward", "grad"):
        if vars(autograd).get(name) is getattr(api, name):
            found.append(Hook(autograd, name, name, sites.BACKWARD))
    found += [Hook(cls, name, name, sites.OPTIMIZER, keeps_first=True) for cls, name in _steps()]
    for module, owner, attribute, name, kind in _LATE:
        where = sys.modules.get(f"extempo.{module}")
        if where is not None:
            keeps_function = owner == "batch"  # whose notes say what its batches were made of
            found.append(Hook(getattr(where, owner) if owner else where, attribute, name, kind, keeps_function))
    return found


# Of modules that a program may never load: module, class, attribute, name, kind.
_LATE = (
    ("data.iteration", "SerialIterator", "__next__", "DataLoader", sites.DATA),
    ("data.iteration", "WorkerIterator", "__next__", "DataLoader", sites.DATA),
    ("data.loader", "DataLoader", "__iter__", "DataLoader starts", sites.DATA),
    ("tracing.planner", "SegmentPlanner", "wish_for_plan", "planning", sites.PLANNING),
    ("tracing.planner", "SegmentPlanner", "plan", "planning", sites.PLANNING),
    ("tracing.compiled_function", "CompiledFunction", "_traced", "compiled call", sites.COMPILED),
    ("tracing.compiled_function", "CompiledFunction", "_eagerly", "compiled call, run eagerly", sites.COMPILED),
    ("tracing.executor", "TraceExecutor", "_flush", "segment", sites.SEGMENT),
    ("batching.api", "batch", "__call__", "ex.batch", sites.BATCH),
    ("batching.native_runner", "", "runner_of", "planning of a batch", sites.PLANNING),
    ("batching.run", "BatchExecutor", "flush", "batches", sites.BATCH),
    ("batching.gradients", "_BackwardPass", "run", "backward of a batch", sites.BACKWARD),
    ("backends.llvm.ir.machine", "Machine", "_compile", "LLVM", sites.PLANNING),
    ("backends.llvm.plans.background", "CompileJob", "wait", "waiting for LLVM", sites.PLANNING),
)


def _steps() -> Iterator[tuple[type, str]]:
    """The steps of all classes of optimizers that there are."""
    module = sys.modules.get("extempo.optim.optimizer")
    if module is None:
        return
    yield module.Optimizer, "zero_grad"
    classes = list(module.Optimizer.__subclasses__())
    while classes:
        cls = classes.pop()
        classes += cls.__subclasses__()
        if "step" in vars(cls):
            yield cls, "step"


class Exchange:
    """The hooks in place: what was put where, and what stood there."""

    def __init__(self, around: Callable[[Hook, Callable[..., Any]], Any]) -> None:
        """`around(hook, function)` makes what stands in its place."""
        self._before: list[tuple[Any, str, Any, Any]] = []
        for hook in hooks():
            before = vars(hook.owner).get(hook.attribute)
            if before is None:
                continue
            made = around(hook, before)
            self._before.append((hook.owner, hook.attribute, before, made))
            setattr(hook.owner, hook.attribute, made)

    def end(self) -> None:
        """Put back what stood there, unless somebody else has put something there since."""
        while self._before:
            owner, attribute, before, made = self._before[-1]
            if vars(owner).get(attribute) is made:
                setattr(owner, attribute, before)
            self._before.pop()
