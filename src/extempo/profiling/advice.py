"""Advice: what a profile suggests to do, where that follows from it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ..backends.selection import native
from ..core import costs
from ..core.op import REGISTRY
from . import sites
from .lines import Line
from .shares import Share

_MANY = 100  # calls of ops, from which on ex.compile may pay
_WORTH_IT = 0.1  # of the whole time
_FORWARD = frozenset((sites.DISPATCH, sites.NATIVE))
_COMPILED = frozenset((sites.COMPILED, sites.SEGMENT, sites.BATCH))


def advice_of(shares: Sequence[Share], whole: float) -> list[str]:
    """One sentence for each thing that is worth doing; `whole`: nanoseconds."""
    by_phase: Counter[str] = Counter()
    for share in shares:
        by_phase[share.phase] += share.nanoseconds  # type: ignore[assignment] # Counter's values need not be int
    found = [*_compile(shares, whole)]
    data = by_phase[sites.DATA_PHASE] / whole
    if data > 0.2:
        found.append(
            f"data loading takes {data:.0%}: DataLoader(..., num_workers=2) loads batches while the model runs"
        )
    planning = by_phase[sites.PLANNING_PHASE] / whole
    if planning > 0.2:
        found.append(
            f"planning takes {planning:.0%}, once for each new trace or kernel: profile more steps, or after a few"
        )
    python = by_phase[sites.PYTHON] / whole
    if python > 0.5:
        found.append(f"Python itself takes {python:.0%}{_mostly(shares)}")
    if native() is None:
        found.append("NumPy's kernels run here: pip install llvmlite makes ops several times as fast")
    return found


def _compile(shares: Sequence[Share], whole: float) -> list[str]:
    """Whether ex.compile would pay: by what a traced op costs as against one that runs eagerly (`core.costs`)."""
    inside = [share for share in shares if share.node is not None and not _is_compiled(share)]
    ops = [share for share in inside if _in_op(share)]
    calls = sum(share.calls for share in ops if share.node is not None and share.node.kind == sites.OP)
    if calls < _MANY:
        return []
    saved = 0.0
    for share in inside:
        if share.is_native:
            continue
        op = REGISTRY.get(share.op.removesuffix(" backward"))
        if share.phase == sites.BACKWARD_PHASE:
            eager = costs.EAGER_BACKWARD if op is None else costs.backward_overhead_of(op)
        elif _in_op(share):
            eager = costs.EAGER_OP if op is None else costs.overhead_of(op, True)
        else:
            continue
        saved += share.nanoseconds * max(1 - costs.TRACED_OP / eager, 0.0)
    part = saved / whole
    each = sum(share.nanoseconds for share in ops) / calls / 1e3
    return [f"{calls:,} calls of {each:.1f} us each: ex.compile saves about {part:.0%}"] if part >= _WORTH_IT else []


def _in_op(share: Share) -> bool:
    return share.phase in _FORWARD and share.node is not None and any(n.kind == sites.OP for n in share.node.path)


def _is_compiled(share: Share) -> bool:
    return share.node is not None and any(node.kind in _COMPILED for node in share.node.path)


def _mostly(shares: Sequence[Share]) -> str:
    lines: dict[Line, float] = defaultdict(float)
    for share in shares:
        if share.phase == sites.PYTHON and share.line is not None:
            lines[share.line] += share.nanoseconds
    return f", most of it at {max(lines, key=lambda line: lines[line])}" if lines else ""
