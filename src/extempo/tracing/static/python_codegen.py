"""The second engine of static functions: op by op, as eager mode would, without the body.

The ops and effects of the recorded call are written down as Python: one statement each, on the line that recorded it,
so errors and nodes name the user's lines. `script_cost` says which engine takes less; the bits are the same.

Both engines are there because neither comes near the other where it loses. Microseconds a call, one core:

                                                   eager     plans    op by op
    one op on 8 elements                             0.4       5.9         1.3
    inference of a small MLP at batch 1             12.3      13.0         8.4
    six moving averages, written in place           58       131          38
    ten elements written one by one                 78       156          45
    likelihood of a Gaussian process (linalg)      400       517         324
    eight elementwise ops on 100,000 elements      102        28         103
    a training step of a transformer layer         365       129         264
    a training step of an LSTM, 50 steps          5311       774        3225

A plan is one native call, but putting ops on a trace, giving tensors their values and closing the trace wherever
something is written, or real nodes are needed, takes several microseconds each time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import CodeType
from typing import Any, NamedTuple

from ...core.context import CONTEXT, ExecutionContext
from ...core.graph import Where, describe_where
from ...core.op import Op
from ...core.types import TensorType
from ...dispatch import dispatcher
from ...dispatch.fast_path import native_call
from .guards import Slots
from .script import Action, Effect, Labels, ScriptCall, misfit
from .source_lines import function_of, line_of
from .trace_actions import LeafSlot, RecordedTrace

MOST_MOVES = 400  # of one function that is compiled


class ValueSlot(NamedTuple):
    """A recorded tensor, which may get a slot."""

    recorded: RecordedTrace
    place: int


class ConstantSlot(NamedTuple):
    value: Any


Result = int | ValueSlot  # int: a slot
Source = Result | ConstantSlot


class EagerOp:
    """An op as it was called."""

    __slots__ = ("attrs", "checked", "gives", "inputs", "leaves", "mode", "op", "results", "where")

    def __init__(
        self,
        op: type[Op],
        inputs: list[Source],
        attrs: dict[str, Any],
        mode: ExecutionContext,
        where: Where | None,
        gives: Result | list[Result],
        leaves: list[LeafSlot] | None = None,
        checked: list[TensorType] | None = None,
    ) -> None:
        self.op, self.inputs, self.attrs, self.mode = op, inputs, attrs, mode
        self.where = where
        self.gives = gives
        self.results = gives if isinstance(gives, list) else [gives]
        self.leaves = leaves or []  # whose kinds may have changed
        self.checked = checked  # the types that results have to have, where they do not follow from those of inputs


Move = EagerOp | Action


def eager_op(action: Effect, sources: list[Source]) -> EagerOp | None:
    """An effect that is an op without native code, as an op.

    None if it hands on something that was there before, or if its attributes are others at each call.
    """
    op, _, attrs = action.args
    slots, types = [slot for _, slot, _ in action.results], [type_ for _, _, type_ in action.results]
    if not sources or len(slots) != action.n_results or attrs is None:
        return None
    gives: Result | list[Result] = [*slots] if action.results[0][0] is not None else slots[0]
    return EagerOp(op, sources, attrs, action.mode, action.where, gives, checked=types)


class PythonWriter:
    """Writes statements for moves, and makes functions of them."""

    def __init__(self, n_slots: int, mode: ExecutionContext, labels: Labels) -> None:
        self._labels = labels
        self._new_slot = count(n_slots)
        self.n_slots = n_slots
        self._places: dict[ValueSlot, int] = {}
        self._names: dict[int, str] = {}
        self._globals: dict[str, Any] = {"__package__": None, "mode_variable": CONTEXT}
        self._grad = (mode.grad, mode.inference)
        self._body: list[str] = []
        self._lines: list[int] = []  # of what is in the body
        self._where: list[tuple[str, Where | None]] = []  # for each move its name and line
        self._texts: dict[CodeType, tuple[CodeType, int]] = {}  # for each part its code as the text is, its first move
        self.needs_call = False  # some move does
        self.changes_mode = False
        self.parts: list[Callable[[Slots, ScriptCall | None], None]] = []

    def slot(self, source: Result) -> int:
        if isinstance(source, int):
            return source
        handle = source.recorded.handles.get(source.place)
        if handle is not None:
            return handle.slot
        if source not in self._places:
            self._places[source] = next(self._new_slot)
            self.n_slots += 1
        return self._places[source]

    def _name(self, value: Any) -> str:
        """A global that holds a value."""
        found = self._names.get(id(value))
        if found is None:
            found = self._names[id(value)] = f"g{len(self._names)}"
            self._globals[found] = value
        return found

    def write(self, moves: list[Move], kept: set[int]) -> None:
        """`kept`: slots that are read after the last move."""
        reads = [self._reads(move) for move in moves]
        made = {slot for move in moves for slot in self._makes(move)}
        last = {slot: i for i, slots in enumerate(reads) for slot in slots}
        code: CodeType | None = None
        for i, move in enumerate(moves):
            where = move.where if isinstance(move, EagerOp | Effect) else None
            file = code if where is None else where[0]
            if self._body and (file is not code or len(self._body) > MOST_MOVES):
                self._end(code)
            code = file
            statements = self._move(move)
            dropped = {slot for slot in (*reads[i], *self._makes(move)) if last.get(slot, -1) <= i}
            over = sorted((dropped & made) - kept)
            if over:
                statements.append(" = ".join(f"s[{slot}]" for slot in over) + " = None")
            self._body.append("; ".join(statements))
            self._lines.append(line_of(where) if where is not None else self._lines[-1] if self._lines else 1)
            name = move.op.name if isinstance(move, EagerOp) else move.name if isinstance(move, Effect) else ""
            self._where.append((name, where))
        if self._body:
            self._end(code)

    def _reads(self, move: Move) -> list[int]:
        if isinstance(move, Action):
            return move.uses()
        return [self.slot(x) for x in move.inputs if not isinstance(x, ConstantSlot)]

    def _makes(self, move: Move) -> list[int]:
        if isinstance(move, EagerOp):
            return [self.slot(x) for x in move.results]
        return [slot for _, slot, _ in move.results] if isinstance(move, Effect) else []

    def _move(self, move: Move) -> list[str]:
        if not isinstance(move, EagerOp | Effect):
            self.needs_call = True
            return [f"{self._name(move.run)}(c)"]
        found = []
        if self._grad != (move.mode.grad, move.mode.inference):
            self._grad = (move.mode.grad, move.mode.inference)
            self.changes_mode = True
            found.append(f"mode_variable.set({self._name(move.mode)})")
        if isinstance(move, Effect):
            return [*found, *self._effect(move)]
        for leaf in move.leaves:
            kind = self._name(leaf)
            found.append(f"x = s[{leaf.slot}]")
            found.append("x._alias is not None and x._catch_up()")
            found.append(f"(x._data is not {kind}.array() or x._history is not {kind}.node) and {kind}.check(x)")
        found.append(self._call(move))
        for source, type_ in zip(move.results, move.checked or (), strict=bool(move.checked)):
            x, kind = f"s[{self.slot(source)}]._type", self._name(type_)
            refuse = self._name(_Misfit(self._labels, move, type_))
            found.append(f"{x} is not {kind} and {x} != {kind} and {refuse}({x})")
        return found

    def _call(self, move: EagerOp) -> str:
        inputs = [self._input(x) for x in move.inputs]
        target = ", ".join(f"s[{self.slot(x)}]" for x in move.results) + "," * isinstance(move.gives, list)
        if move.op.name == "detach":
            return f"{target} = {inputs[0]}.detach()"
        short = None if move.attrs else native_call(move.op, len(inputs))
        if short is not None:
            return f"{target} = {self._name(short)}({', '.join(inputs)})"
        apply, op, attrs = self._name(dispatcher.apply.func), self._name(move.op), self._name(move.attrs)
        return f"{target} = {apply}({op}, ({', '.join(inputs)},), {attrs})"

    def _effect(self, move: Effect) -> list[str]:
        made = {i: f"{self._name(make)}(s)" for i, make in (*move.positional, *move.named)}
        given = [made.get(i) or self._name(x) for i, x in enumerate(move.args)]
        given += [f"{name}={made.get(name) or self._name(x)}" for name, x in move.kwargs.items()]
        call = f"{self._name(move.fn)}({', '.join(given)})"
        if move.results:
            return [f"{self._name(move.keep)}({call}, s)"]
        unlike, refused = ("is not None", True) if move.gives_none else ("is None", None)
        return [f"{call} {unlike} and {self._name(move.keep)}({refused}, s)"]

    def _input(self, source: Source) -> str:
        return self._name(source.value) if isinstance(source, ConstantSlot) else f"s[{self.slot(source)}]"

    def _end(self, like: CodeType | None) -> None:
        """What was written so far becomes a function."""
        part, text = function_of(self._body, self._lines, like, self._globals)
        self._texts[part.__code__] = text, len(self._where) - len(self._body)
        self._body, self._lines = [], []
        self.parts.append(part)

    def only_part(self) -> Callable[..., None] | None:
        """All there is to do, if it is one function that does not ask for its call."""
        is_alone = len(self.parts) == 1 and not self.needs_call and not self.changes_mode
        return self.parts[0] if is_alone else None

    def tell(self, error: BaseException) -> None:
        """Say which op an error came from, as replays of traces do."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code not in self._texts:
            trace = trace.tb_next
        if trace is not None:
            text, first = self._texts[trace.tb_frame.f_code]
            name, where = self._where[first + line_of((text, trace.tb_lasti)) - 2]
            if name:
                error.add_note(f"{name} was recorded at {describe_where(where)}")


class _Misfit:
    """Raises what an effect raises whose result has another type than it had."""

    def __init__(self, labels: Labels, move: EagerOp, type_: TensorType) -> None:
        self.labels, self.name, self.where, self.type = labels, move.op.name, move.where, type_

    def __call__(self, got: TensorType) -> None:
        raise misfit(self.labels, self.name, self.where, str(got), str(self.type))
