"""A program that raised, drawn up to the op that failed: `draw(error)` and `on_error`.

Nothing is watched while the program runs. The error's traceback has what is needed: the op and its operands in the
frames of dispatch, the modules that were being called, and through the operands' histories the ops that led there. Of
an error that came out of `draw(fn, ...)` or of `on_error(..., every_op=True)` every op is known.
"""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from ...core.graph import Graph, Node
from ...core.op import Op
from ...core.tensor import Tensor, TensorLike
from ...core.types import TensorType
from ...nn import Module
from .capture import Capture
from .model import ROOT, Diagram, Group, Item, Parameter, shape_text
from .rolling import roll
from .tape import diagram_of

_KEPT = "_extempo_diagram"  # the attribute of an error that came out of `draw(fn, ...)`
Frames = list[tuple[FrameType, int]]  # with the lines where they are
_PACKAGE = __name__.partition(".")[0] + "."
_NO_HISTORY = (
    "no op before it was recorded, as under no_grad: "
    "`with ex.inspect.on_error(path, every_op=True):` around it notes all of them"
)


def keep(error: BaseException, diagram: Diagram) -> None:
    """Remember every op up to an error."""
    vars(error)[_KEPT] = diagram


def diagram_of_error(error: BaseException) -> Diagram:
    """What is known of the way to an error."""
    kept: Diagram | None = vars(error).get(_KEPT)
    if kept is not None:
        return kept
    frames = _way_to(error)
    modules = _modules(frames)
    names = _names(modules)
    name, operands, arguments = _failing(frames)
    known = {node: name for t, name in names.values() if (node := t._node) is not None}
    made: dict[Node, int] = {}
    tracked = [t for _, t in operands if t is not None and t.requires_grad and id(t) not in names]
    diagram = diagram_of(Graph.of(*tracked), known, {}, made=made)
    for before in diagram.items():
        before.is_output = False
    item = Item(name, "error", where=_where(frames), arguments=arguments)
    local = _local_names(frames)
    told = []
    for shape, t in operands:
        label = names[id(t)][1] if id(t) in names else local.get(id(t), "")
        told.append(f"{label} {shape}".strip())
        source = made.get(t._node) if t is not None and t.requires_grad and t._node is not None else None
        if source is not None:
            item.inputs.append(source)
        else:
            item.parameters.append(Parameter(label or "operand", shape, t is not None and t.requires_grad))
    item.message = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    item.notes = [note for note in (f"operands {', '.join(told)}" if told else "", _code(frames)) if note]
    parent = ROOT
    for path, module in modules[1:]:
        parent = diagram.add(Group(path, "module", type(module).__name__), parent)
    if operands and not any(True for _ in diagram.ops()):
        diagram.notes.append(_NO_HISTORY)
    diagram.add(item, parent)
    diagram.error = item.message
    diagram.root.detail = type(modules[0][1]).__name__ if modules else ""
    return diagram


def _way_to(error: BaseException) -> Frames:
    """The frames down to where it was raised; below them those of an error that was worded anew there."""
    frames = list(_frames(error.__traceback__))
    first = error.__cause__ or error.__context__
    if first is not None:
        below = _way_to(first)
        passed = [frame for frame, _ in frames]
        if below and below[0][0] in passed:
            return frames[: passed.index(below[0][0])] + below
    return frames


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _is_own(frame: FrameType) -> bool:
    """Whether a frame is the user's."""
    package = str(frame.f_globals.get("__package__") or "") + "."
    return not package.startswith(_PACKAGE) or package.startswith(_PACKAGE + "cli.")


def _modules(frames: Frames) -> list[tuple[str, Module]]:
    """The modules that were being called, the outermost first, each by its name in the one around it."""
    found: list[tuple[str, Module]] = []
    for frame, _ in frames:
        module = frame.f_locals.get("self")
        if frame.f_code.co_name != "forward" or not isinstance(module, Module):
            continue
        around = found[-1][1] if found else None
        names = {id(m): n for n, m in around.named_modules()} if around is not None else {}
        if around is not module:
            found.append((names.get(id(module), ""), module))
    return found


def _names(modules: list[tuple[str, Module]]) -> dict[int, tuple[Tensor, str]]:
    if not modules:
        return {}
    model = modules[0][1]
    return {id(t): (t, name) for name, t in (*model.named_parameters(), *model.named_buffers())}


Operand = tuple[str, Tensor | None]  # its shape, and the tensor where it was found


def _failing(frames: Frames) -> tuple[str, list[Operand], str]:
    """The op that failed, its operands, and what else it was given."""
    for place, (frame, _) in enumerate(frames):
        seen = frame.f_locals
        op, types = seen.get("op"), seen.get("types")
        if not _is_own(frame) and isinstance(op, type) and issubclass(op, Op) and isinstance(types, tuple):
            arguments = ", ".join(f"{key}={value!r}" for key, value in (seen.get("attrs") or {}).items())
            return op.name, _operands(types, frames[:place]), arguments
    for (outer, _), (inner, _) in pairwise(frames):
        if _is_own(outer) and not _is_own(inner):  # a function of Extempo that refused before any op
            tensors = list(_tensors(inner))
            if tensors:
                return inner.f_code.co_name, [(shape_text(t.shape), t) for t in tensors], ""
    last = frames[-1][0] if frames else None
    tensors = list(_tensors(last)) if last is not None else []
    return last.f_code.co_name if last is not None else "error", [(shape_text(t.shape), t) for t in tensors], ""


def _operands(types: tuple[Any, ...], frames: Frames) -> list[Operand]:
    """For each type of an input the tensor that it is of: native code has called the op, so frames are asked."""
    found: list[Operand] = []
    taken: set[int] = set()
    own = next((place for place, (frame, _) in reversed(list(enumerate(frames))) if _is_own(frame)), 0)
    around = [t for frame, line in reversed(frames[own:]) for t in _tensors(frame, _line_of(frame, line))]
    for type_ in types:
        if isinstance(type_, TensorType):
            t = next((t for t in around if t._type == type_ and id(t) not in taken), None)
            taken.add(id(t))
            found.append((shape_text(type_.shape), t))
    return found


def _tensors(frame: FrameType, code: str = "") -> Iterator[Tensor]:
    """Those among a frame's variables; in the order in which a line of code names them, if it is the user's."""
    named: dict[str, Any] = {}
    for name, value in frame.f_locals.items():
        values = value if isinstance(value, tuple) else (value,)
        for t in values:
            if isinstance(t, Tensor | TensorLike):
                named[name] = [*named.get(name, ()), t._flat if isinstance(t, TensorLike) else t]
    places = {name: _place(name, code) for name in named}
    if _is_own(frame) and code:
        named = {name: named[name] for name in sorted(named, key=places.__getitem__) if places[name] >= 0}
    for tensors in named.values():
        yield from tensors


def _place(name: str, code: str) -> int:
    match = re.search(rf"\b{re.escape(name)}\b", code)
    return match.start() if match else -1


def _line_of(frame: FrameType, line: int) -> str:
    return linecache.getline(frame.f_code.co_filename, line).strip()


def _own_frame(frames: Frames) -> tuple[FrameType, int] | None:
    """The user's line."""
    return next(((frame, line) for frame, line in reversed(frames) if _is_own(frame)), None)


def _where(frames: Frames) -> str:
    own = _own_frame(frames)
    return f"{own[0].f_code.co_filename}:{own[1]}" if own is not None else ""


def _code(frames: Frames) -> str:
    own = _own_frame(frames)
    return _line_of(*own) if own is not None else ""


def _local_names(frames: Frames) -> dict[int, str]:
    """What tensors are called in the user's line."""
    own = _own_frame(frames)
    return {id(v): k for k, v in own[0].f_locals.items() if isinstance(v, Tensor)} if own is not None else {}


def _diagram_up_to(error: Exception, capture: Capture) -> Diagram:
    diagram = capture.diagram
    if not diagram.error:  # it was not raised by an op
        item = Item(type(error).__name__, "error", where=_where(_way_to(error)))
        item.message = diagram.error = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        diagram.add(item, ROOT)
    roll(diagram)
    return diagram


def _models_of(frame: FrameType) -> dict[str, Module]:
    """The modules among the variables that a frame sees."""
    seen = {**frame.f_globals, **frame.f_locals}
    return {name: value for name, value in seen.items() if isinstance(value, Module)}


class on_error:
    """A block; if it raises, the graph up to the failing op is written to `path`, and the error says so and goes on.

    Costs nothing while nothing fails, so it may stand around a whole training. `path` has an ending that
    `Drawing.save` knows.

    every_op: note every op of the block, so that those are drawn, too, that nothing records (under no_grad, or where no
    input requires grad), with their modules and values. That takes time and memory: for a block of one step.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "graph.html"
    >>> try:
    ...     with ex.inspect.on_error(path):
    ...         ex.ones(2, 3) @ ex.ones(2, 3)
    ... except ex.errors.ShapeError:
    ...     print(path.exists())
    True
    """

    def __init__(self, path: str | Path, *, every_op: bool = False) -> None:
        self.path = Path(path)
        self._every_op = every_op
        self._capture: Capture | None = None

    def __enter__(self) -> on_error:
        if self._every_op:
            self._capture = Capture(_models_of(sys._getframe(1)))
            self._capture.__enter__()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.__exit__(kind, error, trace)
        if error is None or not isinstance(error, Exception):
            return
        if capture is not None:
            keep(error, _diagram_up_to(error, capture))
        from .api import draw

        try:
            error.add_note(f"the graph up to here is drawn in {draw(error).save(self.path)}")
        except Exception as failed:  # the error that is on its way matters more
            said = traceback.format_exception_only(failed)[-1].strip()
            error.add_note(f"the graph up to here could not be drawn in {self.path}: {said}")
