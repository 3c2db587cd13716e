"""Sampling: a thread that looks, again and again, where the thread that is profiled stands.

Native code holds the GIL, so that a look may have to wait for the end of a call. A sample therefore counts for the time
since the one before, not for one interval. A look costs the thread that is looked at, too, which has to hand over the
GIL: the sampler times itself, waking up and all, and looks less often where that would take more than a hundredth of
the time.
"""

from __future__ import annotations

import dis
import sys
import threading
import time
from types import CodeType, FrameType
from typing import NamedTuple

from ..core import locks
from ..core.source_location import PACKAGES, _is_internal
from . import sites
from .call_tree import PYTHON, CallNode
from .lines import line_of

_CALLING = ("CALL", "PRECALL", "BINARY", "COMPARE", "UNARY", "CONTAINS")
_FRAME = "frame"
_LOOK_RARELY, _LONGEST = 100, 0.05  # a pause, in times of what the last turn took, and in seconds
# Where Extempo's own frames stand: the first that fits a frame, from the user's line inwards, decides.
_PHASES = (
    ("extempo.scheduling", sites.PLANNING_PHASE),
    ("extempo.tracing.planner", sites.PLANNING_PHASE),
    ("extempo.backends.llvm.ir", sites.PLANNING_PHASE),
    ("extempo.backends.llvm.plans.background", sites.PLANNING_PHASE),
    ("extempo.autograd", sites.BACKWARD_PHASE),
    ("extempo.batching.gradients", sites.BACKWARD_PHASE),
    ("extempo.optim", sites.OPTIMIZER_PHASE),
    ("extempo.data", sites.DATA_PHASE),
)


class Sample(NamedTuple):
    """What was seen."""

    moment: int  # of time.perf_counter_ns
    frames: tuple[tuple[CodeType, int], ...]  # the user's, the innermost first
    phase: str


class Sampler:
    """Looks at the thread that makes it, until `stop`."""

    def __init__(self, interval: float) -> None:
        self.samples: list[Sample] = []
        self.begin = time.perf_counter_ns()
        self._interval = interval
        self._of = threading.get_ident()
        self._ending = locks.awaited_condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="extempo profile", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause, before = self._interval, time.thread_time()
        while True:
            with self._ending:
                if self._is_over or self._ending.wait(pause):
                    return
            frame = sys._current_frames().get(self._of)
            if frame is None:
                return
            self.samples.append(_seen(frame))
            del frame  # it would keep alive what the program has let go of
            now = time.thread_time()
            pause, before = min(max(self._interval, _LOOK_RARELY * (now - before)), _LONGEST), now

    def stop(self) -> None:
        with self._ending:
            self._is_over = True
            self._ending.notify()
        self._thread.join()


def _seen(top: FrameType) -> Sample:
    frames: list[tuple[CodeType, int]] = []
    phase, frame = "", top
    inside: list[str] = []
    while frame is not None:
        if _is_own(frame):
            if not frames:
                inside.append(str(frame.f_globals.get("__name__")))
        else:
            frames.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back  # type: ignore[assignment] # None ends the loop
    phase = _phase(inside, frames)
    return Sample(time.perf_counter_ns(), tuple(frames), phase)


def _is_own(frame: FrameType) -> bool:
    """Whether it is Extempo's: code that was made by code is, too."""
    if "__package__" not in frame.f_globals:
        return True
    package = frame.f_globals["__package__"]
    internal = PACKAGES.get(package)
    return _is_internal(package) if internal is None else internal


def _phase(inside: list[str], frames: list[tuple[CodeType, int]]) -> str:
    """`inside`: Extempo's modules within the user's innermost frame, the innermost first."""
    for prefix, phase in _PHASES:
        if any(name.startswith(prefix) for name in inside):
            return phase
    if inside:
        return sites.DISPATCH
    if frames:
        code, instruction = frames[0]
        name = dis.opname[code.co_code[instruction]] if 0 <= instruction < len(code.co_code) else ""
        return sites.NATIVE if name.startswith(_CALLING) else sites.PYTHON
    return sites.PYTHON


def tree_of(samples: list[Sample], begin: int, end: int) -> CallNode:
    """The samples as a call tree; `calls` are samples."""
    root = CallNode("main", "thread", None, None, None, -1)
    root.calls, root.total, before = 1, end - begin, begin
    samples = [sample for sample in samples if sample.moment <= end]
    if samples and samples[-1].moment < end:  # what came after the last one was not looked at
        samples = [*samples, samples[-1]._replace(moment=end)]
    for sample in samples:
        time = max(min(sample.moment, end) - before, 0)
        before = max(sample.moment, before)
        node = root
        for code, instruction in reversed(sample.frames):
            node = node.child(code.co_qualname, _FRAME, line_of(code, instruction))
            node.total += time
            node.calls += 1
        leaf = node.child("Python" if sample.phase == sites.PYTHON else sample.phase, PYTHON, node.line)
        leaf.stage = sample.phase
        leaf.own += time
        leaf.total += time
        leaf.calls += 1
    if not samples:
        root.own = root.total
    return root
