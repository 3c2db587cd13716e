"""What an error tells of the program when it is shown: the module it rose in, what came into it, and the shapes of the
operands of the failing expression.

Looked up from the traceback when somebody reads the notes of the error, so an error that is caught and forgotten costs
nothing. Nothing of the program runs again: operands are read from the frames, and an operand that is itself computed is
known from the op that got it.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import textwrap
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

_MOST_OPERANDS = 6
_LONGEST = 100  # characters of an expression


def notes_of(error: BaseException) -> list[str]:
    """Notes on where an error rose; none if its frames say nothing that its message does not."""
    frames = list(_frames(error.__traceback__))
    try:
        return [note for note in (_module_note(frames), _operands_note(frames)) if note]
    except Exception:  # whatever is wrong with the frames of an error, the error itself must be shown
        return []


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lasti
        traceback = traceback.tb_next


def _is_internal(frame: FrameType) -> bool:
    package = frame.f_globals.get("__package__") or ""
    return f"{package}.".startswith("extempo.") and not package.startswith("extempo.cli")


# ---- the module


def _module_note(frames: list[tuple[FrameType, int]]) -> str:
    """`in encoder.layers.3.linear1 (Linear), which got float32 (32, 16)`; "" outside of modules."""
    calls = [frame for frame, _ in frames if _is_module_call(frame)]
    if not calls:
        return ""
    outer, inner = calls[0].f_locals["self"], calls[-1].f_locals["self"]
    path = path_of(outer, inner)
    kind = type(inner).__name__
    name = f"{path} ({kind})" if path else kind
    given = calls[-1].f_locals
    parts = [*given["args"], *given["kwargs"].values()]
    return f"in {name}, which got {', '.join(map(described, parts)) or 'nothing'}"


def _is_module_call(frame: FrameType) -> bool:
    if frame.f_code.co_name != "__call__" or frame.f_globals.get("__name__") != "extempo.nn.module":
        return False
    return hasattr(frame.f_locals.get("self"), "named_modules")


def path_of(outer: Any, inner: Any) -> str:
    """The dotted name of a module within another; the name of its class if it is not registered there."""
    return next((name for name, module in outer.named_modules() if module is inner), f"?.{type(inner).__name__}")


def described(value: Any) -> str:
    """A value in a few words: dtype and shape of a tensor, a small number itself, else the type."""
    type_ = getattr(value, "_type", None)
    if type_ is not None and hasattr(type_, "shape"):
        return f"{str(type_.dtype).rpartition('.')[2]} {tuple(type_.shape)}"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__} {tuple(shape)}"


# ---- the expression


def _operands_note(frames: list[tuple[FrameType, int]]) -> str:
    """The failing expression of the user's line, and the shape of each of its operands."""
    users = [i for i, (frame, _) in enumerate(frames) if not _is_internal(frame)]
    if not users or users[-1] == len(frames) - 1:  # the user's own error
        return ""
    frame, instruction = frames[users[-1]]
    text = _expression(frame.f_code, instruction)
    if not text or len(text) > _LONGEST:
        return ""
    tree = ast.parse(text, mode="eval").body
    got = _operands_of_op(frames[users[-1] + 1 :])
    found = _operands(tree, frame, got)
    simple = isinstance(tree, ast.BinOp) and isinstance(tree.left, ast.Name) and isinstance(tree.right, ast.Name)
    if len(found) < 2 or simple:  # the message itself has the shapes, in this order
        return ""
    width = max(map(len, found))
    lines = [f"    {name:<{width}}  {what}" for name, what in itertools.islice(found.items(), _MOST_OPERANDS)]
    return "\n".join([f"operands of `{text}`:", *lines])


def _expression(code: CodeType, instruction: int) -> str:
    """The source of the expression that an instruction belongs to."""
    place = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
    if place is None or None in place:
        return ""
    first, last, start, end = place
    lines = [linecache.getline(code.co_filename, n) for n in range(first, last + 1)]  # type: ignore[operator,arg-type]
    if not all(lines):
        return ""
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    return " ".join(textwrap.dedent(b"".join(encoded).decode()).split())


def _operands_of_op(inner: list[tuple[FrameType, int]]) -> list[Any]:
    """The tensors that the op got which the user's expression called, in its order."""
    for frame, _ in inner:
        inputs = frame.f_locals.get("inputs")
        if isinstance(inputs, tuple) and any(hasattr(x, "_type") for x in inputs):
            return [x for x in inputs if hasattr(x, "_type")]
    return []


def _operands(tree: ast.expr, frame: FrameType, got: list[Any]) -> dict[str, str]:
    """The parts of an expression that are tensors, with what they are."""
    if isinstance(tree, ast.BinOp):
        parts = [tree.left, tree.right]
    elif isinstance(tree, ast.Compare) and len(tree.comparators) == 1:
        parts = [tree.left, tree.comparators[0]]
    elif isinstance(tree, ast.Call):
        of = [tree.func.value] if isinstance(tree.func, ast.Attribute) else []
        parts = [*of, *tree.args, *(keyword.value for keyword in tree.keywords)]
        parts = [p.value if isinstance(p, ast.Starred) else p for p in parts]
        parts = [e for p in parts for e in (p.elts if isinstance(p, ast.List | ast.Tuple) else [p])]
    elif isinstance(tree, ast.Subscript):
        parts = [tree.value, *(tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice])]
    else:
        return {}
    values = [(part, value_of(part, frame)) for part in parts]
    if isinstance(tree, ast.BinOp | ast.Compare) and len(got) == 2:
        values = [(part, x) for part, x in zip(parts, got, strict=True)]
    return {ast.unparse(part): described(value) for part, value in values if hasattr(value, "_type")}


def value_of(tree: ast.expr, frame: FrameType) -> Any:
    """What a name or an attribute of one is in a frame, without running any code; None if that cannot be known."""
    if isinstance(tree, ast.Name):
        return frame.f_locals.get(tree.id, frame.f_globals.get(tree.id))
    if isinstance(tree, ast.Attribute):
        owner = value_of(tree.value, frame)
        attributes = getattr(owner, "__dict__", {}) if owner is not None else {}
        for table in (attributes, attributes.get("_parameters"), attributes.get("_buffers")):
            if table and tree.attr in table:
                return table[tree.attr]
    if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Constant):
        owner = value_of(tree.value, frame)
        if type(owner) in (list, tuple, dict):
            try:
                return owner[tree.slice.value]
            except (LookupError, TypeError):
                return None
    return None
