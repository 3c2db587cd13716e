"""What stays alive from iteration to iteration: how many tensors and graph nodes, made at which line, held by what.

Memory may outlive its tensors, in NumPy arrays that share it: then there are more bytes each time, and no more tensors.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from ..core.code_names import codes_in, globals_of, is_library
from ..core.graph import Node, Traced, describe_where
from ..core.live_objects import live_objects
from ..core.tensor import Tensor
from ..memory.referrers import CONTAINERS, holder, saved_bytes

_MOST_ASKED = 8  # tensors whose holders are looked for


class Leak(NamedTuple):
    """Memory that grows with iterations."""

    tensors_per_step: float
    nodes_per_step: float  # of graphs, which keep their inputs
    bytes_per_step: float  # of tensors, and of what nodes keep for their gradients
    what: str  # the most frequent, such as "float32 () made by mean"
    line: str  # where they were made, "" if that is not known
    holder: str  # what holds them, "" if that is not known

    def __str__(self) -> str:
        counts = ((self.tensors_per_step, "tensor"), (self.nodes_per_step, "graph node"))
        # One tensor in a whole pass is the end of what has grown, not what grows.
        left = [f"{n:.3g} {what}{'s' * (n != 1)}" for n, what in counts if n >= 0.5]
        grown = f"each step leaves {' and '.join(left) or 'memory'} behind"
        size = f" ({self.bytes_per_step:,.0f} bytes)" if self.bytes_per_step >= 1 else ""
        made = f", at {self.line}" if self.line else ""
        held = f"; held by {self.holder}" if self.holder else ""
        return f"{grown}{size}: {self.what}{made}{held}"


class Newcomers:
    """Tensors that have come since it was entered, of Extempo and of PyTorch, and nodes of graphs.

    What is there before is frozen, so that the collector, and whoever asks it for objects, looks at the others only.
    """

    def __enter__(self) -> Newcomers:
        gc.collect()
        self._freezes = gc.get_freeze_count() == 0  # what others have frozen cannot be told from ours afterwards
        self._before: set[int] = set()
        if self._freezes:
            gc.freeze()
        else:
            self._before = {id(x) for x in _watched()}
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._freezes:
            gc.unfreeze()

    def alive(self) -> list[Any]:
        """Those that are still there. What stands for nodes on a trace belongs to the trace, not to a graph."""
        gc.collect()
        return [x for x in _watched() if id(x) not in self._before and getattr(x, "op", None) is not Traced]


def _watched() -> list[Any]:
    torch = sys.modules.get("torch")
    return live_objects(*(Tensor, Node) if torch is None else (Tensor, Node, torch.Tensor))


def _n_bytes(x: Any) -> int:
    if isinstance(x, Node):
        return saved_bytes(x)
    return int(x.numel()) * int(x.dtype.itemsize)


def grows(counts: list[int]) -> bool:
    """Whether each part of a pass left more behind than the one before."""
    return len(counts) > 2 and all(later > earlier for earlier, later in pairwise(counts))


def leak_of(new: list[Any], n_steps: int) -> Leak | None:
    """The tensors and nodes left after so many steps, told by their most frequent kind. None if there are none."""
    if not new:
        return None
    tensors = [x for x in new if not isinstance(x, Node)]
    nodes = [x for x in new if isinstance(x, Node)]
    # One tensor that is replaced again and again may keep a graph that grows.
    by_nodes = bool(nodes) and 2 * len(tensors) < n_steps
    inner = [x for x in nodes if x.inputs] or nodes
    (what, line), _ = Counter(map(_kind, inner if by_nodes else tensors)).most_common(1)[0]
    # Nodes are reached from a tensor that someone holds.
    examples = [t for t in tensors if by_nodes or _kind(t) == (what, line)]
    holder = _holder_of_any(examples, {id(new), id(tensors), id(nodes), id(examples)})
    total = sum(map(_n_bytes, new))
    return Leak(len(tensors) / n_steps, len(nodes) / n_steps, total / n_steps, what, line, holder)


def _holder_of_any(examples: list[Any], own: set[int]) -> str:
    """Of the last tensors, the first holder that is found; `own`: lists of this module, which hold them too."""
    for t in examples[-_MOST_ASKED:]:
        found = holder(t, set(own))
        if found:
            return found
    return ""


def _kind(t: Any) -> tuple[str, str]:
    if isinstance(t, Node):
        return f"nodes of {t.op.name}", describe_where(t.where)
    dtype = str(t.dtype).rpartition(".")[2]
    text = f"{dtype} {tuple(t.shape)}"
    node = t.grad_fn if isinstance(t, Tensor) else None
    if node is not None:
        graph = ", with their graph" if node.inputs else ""
        return f"{text} made by {node.op.name}{graph}", describe_where(node.where)
    cut = getattr(t, "_grad_barrier", None)
    if cut:
        return f"{text} from {cut[0]}", describe_where(cut[1])
    return text, ""


def memory_leak(n_bytes: int, n_steps: int, before: dict[str, int], after: dict[str, int]) -> Leak:
    """Memory that has outlived its tensors; `before`, `after`: the lengths of the step's containers."""
    longer = [name for name, n in after.items() if n > before.get(name, 0)]
    what = "NumPy arrays, or other views of tensors that are gone"
    return Leak(0.0, 0.0, n_bytes / n_steps, what, "", ", ".join(longer))


def lengths_of_containers(step: Any) -> dict[str, int]:
    """How long the lists, dicts and sets are that a step and the functions it calls name, and those in attributes."""
    found: dict[str, int] = {}
    _measure_named(step, found, set())
    return found


def _measure_named(fn: Any, found: dict[str, int], seen: set[int]) -> None:
    if isinstance(fn, MethodType):
        _measure_one("self", fn.__self__, found, seen)
        fn = fn.__func__
    if not isinstance(fn, FunctionType) or id(fn) in seen or is_library(fn.__globals__.get("__name__")):
        return
    seen.add(id(fn))
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        with suppress(ValueError):  # not assigned yet
            _measure_one(name, cell.cell_contents, found, seen)
    for code in codes_in(fn.__code__):
        for name, _ in globals_of(code):
            _measure_one(name, fn.__globals__.get(name), found, seen)


def _measure_one(name: str, value: Any, found: dict[str, int], seen: set[int]) -> None:
    if isinstance(value, CONTAINERS):
        found[name] = len(value)
    elif isinstance(value, FunctionType | MethodType):
        _measure_named(value, found, seen)
    elif not isinstance(value, ModuleType | type):
        for key, held in getattr(value, "__dict__", {}).items():
            if isinstance(held, CONTAINERS):
                found[f"{name}.{key}"] = len(held)
