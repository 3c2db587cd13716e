"""`replay`: run a recorded iteration again, node by node, and compare every value with the one in the file.

Where processor, backend and threads are those of the recording, nodes read what replayed nodes gave, and every bit must
be the same. Otherwise each node reads the recorded values, so that differences do not add up, and its results may
differ by as many units in the last place as its op is entitled to.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import backends
from .._version import __version__
from ..core.context import no_grad
from ..core.graph import Leaf, Node, Pick
from ..core.op import Op
from ..core.storage import Array
from ..core.strides import copied
from ..core.tensor import Tensor, from_array
from ..core.wording import counted
from ..dispatch.dispatcher import apply
from ..errors import ArgumentError, ExtempoError, UnsupportedError
from ..tracing.api import eager
from .looking import look
from .tables import Column, Printable, Table

if TYPE_CHECKING:
    from ..exporting.program import Program  # what reads files is loaded when one is read

FORMAT, VERSION = "extempo recording", 1
FEATURES = "CPU features"
_EXACT = ("view", "index", "join", "sort", "random", "arrange")  # families that move values, or compute integers
_ADDING = ("sum_rows", "index_embed", "patch_sum", "max_pool_grad", "gather_embed", "scatter_reduce")  # but these add
_ROUNDED, _APPROXIMATED, _SUMMED = 1, 4, 64  # units in the last place: of arithmetic, functions, sums and products

Stopper = Callable[["ReplayedNode", tuple[Any, ...], tuple[Any, ...]], None]


class ReplayedNode(NamedTuple):
    """A node that was run again: `ulps` says by how many units in the last place it differs from the recording.

    >>> import io
    >>> file = io.BytesIO()
    >>> with ex.record(file):
    ...     y = ex.ones(2).exp()
    >>> position = file.seek(0)
    >>> node = ex.inspect.replay(file).nodes[-1]
    >>> node.op, node.phase, node.ulps, node.differs
    ('exp', 'forward', 0.0, False)
    """

    name: str  # such as "%7"
    op: str
    phase: str
    module: str
    line: str
    value: str  # in one line
    ulps: float
    allowed: float

    @property
    def differs(self) -> bool:
        """By more than it may."""
        return self.ulps > self.allowed


class Replay(Printable):
    """What `replay` found; printed, a table of nodes and a verdict.

    nodes: in the order in which they ran. first_difference: the first that differs, None if none does. changed: what is
    not as it was when the file was written. updates: for each step of an optimizer, what became of it.

    >>> import io
    >>> file = io.BytesIO()
    >>> with ex.record(file):
    ...     y = ex.ones(2).exp()
    >>> position = file.seek(0)
    >>> replay = ex.inspect.replay(file)
    >>> len(replay.nodes), replay.first_difference, replay.changed
    (1, None, [])
    """

    def __init__(self, nodes: list[ReplayedNode], changed: list[str], updates: list[str], error: str) -> None:
        self.nodes = nodes
        self.changed = changed
        self.updates = updates
        self.error = error  # that ended the recorded iteration

    @property
    def first_difference(self) -> ReplayedNode | None:
        """The first node that differs from the recording."""
        return next((node for node in self.nodes if node.differs), None)

    def verdict(self) -> str:
        """In a sentence."""
        n = counted(len(self.nodes), "node")
        first = self.first_difference
        if first is not None:
            where = ", ".join(p for p in (f"module {first.module}" if first.module else "", first.line) if p)
            by = "a nan or infinity" if np.isinf(first.ulps) else f"{first.ulps:,.0f} units in the last place"
            return f"{first.name}, {first.op} {first.phase} ({where}), is the first of {n} that differs, by {by}"
        return f"{n}, {'each within what its op may differ by' if self.changed else 'every bit as recorded'}"

    def __str__(self) -> str:
        columns = [Column("node"), Column("op"), Column("module"), Column("line"), Column("value"), Column("")]
        rows = [
            [
                node.name,
                node.op if node.phase == "forward" else f"{node.op} (backward)",
                node.module,
                node.line,
                node.value,
                "DIFFERS" if node.differs else "",
            ]
            for node in self.nodes
        ]
        told = [Table(columns, rows).text(width=200)]
        told += [f"not as recorded: {what}" for what in self.changed]
        told += self.updates
        if self.error:
            told.append(f"the recorded iteration ended with {self.error}")
        return "\n".join([*told, self.verdict()])

    def as_dict(self) -> dict[str, Any]:
        nodes = [{**node._asdict(), "differs": node.differs} for node in self.nodes]
        return {"nodes": nodes, "changed": self.changed, "updates": self.updates, "verdict": self.verdict()}


def replay(f: Any, stop: str | int | None = None, stopped: Stopper | None = None) -> Replay:
    """Run again what `ex.record(f)` has recorded, and say which op is the first to differ, if one does.

    stop: the number of a node, as `%7` or 7, after which to end. stopped: called there with the node, its inputs and
    its results.

    >>> import io
    >>> file = io.BytesIO()
    >>> with ex.record(file):
    ...     y = ex.ones(2).exp()
    >>> position = file.seek(0)
    >>> print(ex.inspect.replay(file).verdict())
    1 node, every bit as recorded
    """
    from ..serialization.files import FileFormatError

    content = _contents(f)
    try:
        return _replayed(content, stop, stopped)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, ExtempoError):
            raise
        raise FileFormatError(
            f"replay: {_named(f)} cannot be read as a recording ({type(error).__name__}: {str(error)[:100]})"
        ) from None


def _named(f: Any) -> str:
    return str(f) if isinstance(f, str) or hasattr(f, "__fspath__") else "the file"


def _contents(f: Any) -> dict[str, Any]:
    from ..serialization.files import FileFormatError
    from ..serialization.loading import load

    try:
        found = load(f, weights_only=True)
    except UnsupportedError as error:
        raise FileFormatError(f"replay: {_named(f)} was not written by ex.record: {error}") from None
    if type(found) is not dict or found.get("format") != FORMAT:
        raise FileFormatError(f"replay: {_named(f)} was not written by ex.record; ex.load reads other files")
    if found.get("version") != VERSION:
        raise FileFormatError(
            f"replay: {_named(f)} has version {found.get('version')}, this Extempo reads {VERSION}; update Extempo"
        )
    return found


class _Values:
    """The values of a recording, by node."""

    def __init__(self, program: Program, content: dict[str, Any]) -> None:
        from ..serialization.files import FileFormatError

        self.numbers = {node: str(i) for i, node in enumerate(program.graph)}
        orders, given = content["orders"], content["inputs"]
        self.leaves: dict[Node, Tensor] = {}
        for node, name in program.leaf_names.items():
            t = given.get(name)
            t = program.weights[name] if t is None else t
            if t._type != node.type:
                raise FileFormatError(f"replay: the input {name!r} is {t._type}, the program takes {node.type}")
            order = orders.get(self.numbers[node])
            self.leaves[node] = t if order is None else from_array(copied(t._values(), tuple(order)))
        self._recorded = content["values"]

    def recorded(self, node: Node) -> Tensor:
        if node in self.leaves:
            return self.leaves[node]
        found: Tensor = self._recorded[self.numbers[node]]
        return found


def _replayed(content: dict[str, Any], stop: str | int | None, stopped: Stopper | None) -> Replay:
    from ..exporting.text import parse_program

    program = parse_program(content["program"], content["weights"])
    values = _Values(program, content)
    changed = _changes(content["environment"])
    last = None if stop is None else _number(stop, values)
    known: dict[Node, Any] = dict(values.leaves)
    read: dict[Node, tuple[Any, ...]] = {}  # what nodes got
    nodes: list[ReplayedNode] = []
    notes = iter(content["notes"])
    with eager(), no_grad():
        for node in program.graph:
            if node.op is Leaf:
                continue
            note = next(notes, ("", "", ""))
            if node.op is Pick:
                inputs = read[node.inputs[0]]
                result = known[node.inputs[0]][node.attrs["index"]]
            else:
                inputs = tuple([_input(i, known, values, bool(changed)) for i in node.inputs])
                result = apply(node.op, inputs, node.attrs)
            known[node], read[node] = result, inputs
            if not isinstance(result, tuple):
                nodes.append(_compared(node, result, values, note, bool(changed)))
            if last == values.numbers[node]:
                if stopped is not None and nodes:
                    stopped(nodes[-1], inputs, result if isinstance(result, tuple) else (result,))
                return Replay(nodes, changed, [], content["error"])
        updates = [_update(u, bool(changed)) for u in content["updates"]]
    return Replay(nodes, changed, updates, content["error"])


def _number(stop: str | int, values: _Values) -> str:
    wanted = str(stop).removeprefix("%")
    ran = [n for node, n in values.numbers.items() if node.op is not Leaf]
    if wanted not in ran:
        told = f"%{ran[0]} to %{ran[-1]}" if ran else "none"
        raise ArgumentError(f"replay: there is no node %{wanted} to stop at; there are {told}")
    return wanted


def _input(x: Any, known: dict[Node, Any], values: _Values, apart: bool) -> Any:
    if not isinstance(x, Node):
        return x
    return values.recorded(x) if apart and type(x.type) is not tuple else known[x]


def environment() -> dict[str, str]:
    """What bits depend on: processor, backend, threads and versions."""
    found = backends.stats()
    told = {"backend": str(found["backend"]), "threads": str(_n_threads()), "machine": platform.machine()}
    told[FEATURES] = _features() if found["backend"] != "numpy" else ""
    told |= {"extempo": __version__, "numpy": np.__version__, "byte order": sys.byteorder}
    return told


def _features() -> str:
    from ..backends.llvm.ir.machine import host

    return ",".join(sorted(f for f in host().features.split(",") if f.startswith("+")))


def _n_threads() -> int:
    from ..compat.settings import get_num_threads

    return get_num_threads()


def _changes(recorded: dict[str, str]) -> list[str]:
    now = environment()
    names = dict.fromkeys((*recorded, *now))
    return [
        f"{name} was {recorded.get(name) or 'unknown'}, is {now.get(name) or 'unknown'}"
        for name in names
        if recorded.get(name) != now.get(name) and name != FEATURES
    ] + _feature_changes(recorded.get(FEATURES, ""), now[FEATURES])


def _feature_changes(recorded: str, now: str) -> list[str]:
    """Which features a processor has more, or no more; without native code nobody asks for them."""
    before, after = set(recorded.split(",")), set(now.split(","))
    if before == after or not recorded or not now:
        return []
    told = [f"no longer {', '.join(sorted(before - after))}"] if before - after else []
    told += [f"now also {', '.join(sorted(after - before))}"] if after - before else []
    return [f"{FEATURES}: {'; '.join(told)}"]


def _compared(node: Node, result: Tensor, values: _Values, note: Any, apart: bool) -> ReplayedNode:
    source: Any = node.inputs[0] if node.op is Pick else node
    allowed = allowed_ulps(source.op) if apart else 0.0
    relative = apart and allowed == _SUMMED
    ulps = difference(result._values(), values.recorded(node)._values(), relative)
    name = source.op.name if source is node else f"{source.op.name}[{node.attrs['index']}]"
    phase, module, line = note
    return ReplayedNode(f"%{values.numbers[node]}", name, phase, module, line, str(look(result)), ulps, allowed)


def allowed_ulps(op: type[Op]) -> float:
    """By how many units in the last place an op's results may differ between processors, backends and thread counts.

    Of sums and products, of the largest result.
    """
    if op.family in _EXACT:
        return _SUMMED if op.name in _ADDING else 0
    if op.family == "elementwise":
        return _APPROXIMATED if getattr(op, "to_float", False) else _ROUNDED
    return _SUMMED


def difference(new: Array, old: Array, relative_to_largest: bool = False) -> float:
    """The largest difference in units in the last place; inf where one is nan or infinite and the other is not.

    0 means the same bits, but for the bits of a nan; zeros of other signs are half a unit apart.
    """
    if new.shape != old.shape or new.dtype != old.dtype:
        return float("inf")
    if old.size == 0 or new.tobytes() == old.tobytes():
        return 0.0
    if old.dtype.kind in "biu":
        return float("inf")
    a, b = new.astype(np.float64), old.astype(np.float64)
    same = (new == old) | (np.isnan(a) & np.isnan(b))
    if (~same & ~(np.isfinite(a) & np.isfinite(b))).any():
        return float("inf")
    a, b = np.where(same, 0.0, a), np.where(same, 0.0, b)
    wide = old.dtype if old.dtype.kind == "f" else np.dtype(np.float32)
    scale = np.abs(old.astype(np.float64))
    at = (
        np.max(scale, where=np.isfinite(scale), initial=0.0)
        if relative_to_largest
        else np.maximum(np.abs(a), np.abs(b))
    )
    unit = np.spacing(np.asarray(at, wide)).astype(np.float64) * (2.0**16 if wide != old.dtype else 1.0)
    signs = (np.signbit(new) != np.signbit(old)) & same & ~np.isnan(new.astype(np.float64))
    return float(max(np.max(np.abs(a - b) / unit), 0.5 if signs.any() else 0.0))


def _update(update: dict[str, Any], apart: bool) -> str:
    """A step of an optimizer, done again; what came of it, in words."""
    from .. import optim

    name = update["optimizer"]
    if not update["is_known"] or "after" not in update:
        why = "is no optimizer of ex.optim" if not update["is_known"] else "was not finished"
        return f"optimizer step: {name} {why}; not replayed"
    parameters = [p.requires_grad_() for p in update["before"]]
    for p, g in zip(parameters, update["gradients"], strict=True):
        p.grad = g
    groups = []
    for group in update["state"]["param_groups"]:
        groups.append({**group, "params": [parameters[i] for i in group["params"]]})
    kind = getattr(optim, name)
    optimizer = kind(groups)
    optimizer.load_state_dict(update["state"])
    optimizer.step()
    pairs = zip(parameters, update["after"], strict=True)
    ulps = max((difference(p.detach()._values(), after._values()) for p, after in pairs), default=0.0)
    if ulps <= (_SUMMED if apart else 0):
        return f"optimizer step: {name}, {counted(len(parameters), 'parameter')}, {'close' if ulps else 'every bit'}"
    return f"optimizer step: {name} DIFFERS, by {ulps:,.0f} units in the last place"
