"""The script of a static function: what one call of it does, as a list of actions on slots.

A slot holds what an action reads: an argument, a tensor from outside, the result of an earlier action. Ops go to a
TraceExecutor like any other, but nothing is traced: `trace_actions` has the actions that put known ops on its trace
and run them. Whatever is no traced op (writes, optimizer steps, `.grad`, ops that only eager mode has) is an `Effect`:
the same function called again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...core.context import CONTEXT, ExecutionContext
from ...core.graph import Where, describe_where
from ...core.tensor import Tensor, TensorLike, wrap
from ...core.types import TensorType
from ...errors import ShapeError
from ..executor import TraceExecutor
from .guards import Slots, is_named_tuple
from .sym_numbers import FOLLOWED

Filler = Callable[[Slots], Any]
_ADVICE = "sizes and structure are fixed, leave static=True out where they depend on values"


class ScriptCall:
    """One call: its slots, its recording, the mode that the last effect ran in."""

    __slots__ = ("mode", "recording", "slots")

    def __init__(self, slots: Slots, recording: TraceExecutor | None, mode: ExecutionContext) -> None:
        self.slots = slots
        self.recording: Any = recording  # None where ops run one by one: then no action asks for it
        self.mode = mode


def filler(value: Any, slot_of: Callable[[Any], int], anew: bool = False) -> Filler | None:
    """What makes a value again from slots; None if there is no tensor or followed number in it.

    `anew`: lists and dicts are made again in any case.
    """
    if isinstance(value, Tensor) or type(value) in FOLLOWED:
        return operator.itemgetter(slot_of(value))
    names: dict[str, Any] = {}
    text = _expression(value, slot_of, anew, names)
    return None if text is None else eval(f"lambda s: {text}", names)


def _expression(value: Any, slot_of: Callable[[Any], int], anew: bool, names: dict[str, Any]) -> str | None:
    """The same as Python text; `names`: what the names in it mean."""

    def name(x: Any) -> str:
        names[f"v{len(names)}"] = x
        return f"v{len(names) - 1}"

    if isinstance(value, Tensor) or type(value) in FOLLOWED:
        return f"s[{slot_of(value)}]"
    if isinstance(value, TensorLike):
        return f"{name(value._maker())}(s[{slot_of(value._flat)}])"
    if type(value) in (list, tuple) or is_named_tuple(value):
        parts = [_expression(x, slot_of, anew, names) for x in value]
        if any(part is not None for part in parts) or (anew and type(value) is list):
            items = ", ".join(part or name(x) for part, x in zip(parts, value, strict=True))
            if type(value) is list:
                return f"[{items}]"
            return f"({items},)" if type(value) is tuple else f"{name(type(value))}({items})"
    elif type(value) is dict:
        entries = {k: _expression(x, slot_of, anew, names) for k, x in value.items()}
        if any(part is not None for part in entries.values()) or anew:
            return f"{{{', '.join(f'{name(k)}: {part or name(value[k])}' for k, part in entries.items())}}}"
    return None


class Labels:
    """How messages name the function, and tensors that it has from outside."""

    def __init__(self, function: str) -> None:
        self.function = f"{function} (static)"
        self.of_slots: dict[int, str] = {}

    def of(self, slot: int) -> str:
        return f"{self.function}: {self.of_slots.get(slot, 'a tensor')}"


def misfit(labels: Labels, name: str, where: Where | None, got: str, expected: str, advice: str = _ADVICE) -> Exception:
    """Something has another result than it had."""
    return ShapeError(
        f"{labels.function}: the result of {name} at {describe_where(where)} is {got}, when the function was "
        f"recorded it was {expected}; {advice}"
    )


class Action:
    """One thing that a call does."""

    drops: tuple[int, ...] = ()  # slots that nobody reads after it

    def run(self, call: ScriptCall) -> None:
        raise NotImplementedError

    def uses(self) -> list[int]:
        """The slots that it reads."""
        return []


class Effect(Action):
    """A function called again, in the mode that it was called in."""

    def __init__(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], mode: ExecutionContext
    ) -> None:
        self.fn = fn
        self.args = list(args)
        self.kwargs = kwargs
        self.mode = mode
        self.positional: list[tuple[int, Filler]] = []
        self.named: list[tuple[str, Filler]] = []
        self.read: list[int] = []  # slots
        self.results: list[tuple[int | None, int, TensorType]] = []  # (which of several, slot, type)
        self.n_results = 0  # of these, and of others that were there before
        self.gives_none = False
        self.where: Where | None = None
        self.labels: Labels
        self.advice = _ADVICE

    def fill_from(self, slot_of: Callable[[Any], int]) -> None:
        """Find out which arguments are read from slots."""

        def noted(x: Any) -> int:
            self.read.append(slot_of(x))
            return self.read[-1]

        found = [(i, filler(x, noted)) for i, x in enumerate(self.args)]
        self.positional = [(i, make) for i, make in found if make is not None]
        named = [(k, filler(x, noted)) for k, x in self.kwargs.items()]
        self.named = [(k, make) for k, make in named if make is not None]
        for i, _ in self.positional:
            self.args[i] = None
        self.kwargs = {k: None if any(k == name for name, _ in self.named) else x for k, x in self.kwargs.items()}

    def uses(self) -> list[int]:
        return self.read

    def run(self, call: ScriptCall) -> None:
        slots = call.slots
        args = self.args.copy()
        for i, make in self.positional:
            args[i] = make(slots)
        if call.mode is not self.mode:
            call.mode = self.mode
            CONTEXT.set(self.mode)
        try:
            if self.kwargs:
                out = self.fn(*args, **self.kwargs | {k: make(slots) for k, make in self.named})
            else:
                out = self.fn(*args)
        except Exception as error:
            error.add_note(f"{self.name} was recorded at {describe_where(self.where)}")
            raise
        if (out is None) is not self.gives_none or self.results:
            self.keep(out, slots)

    def keep(self, out: Any, slots: Slots) -> None:
        """Put results into their slots, or raise if they are not like those of the recorded call."""
        if (out is None) is not self.gives_none:
            raise self._misfit("None" if out is None else "not None", "None" if self.gives_none else "not None")
        for index, slot, type_ in self.results:
            t = out if index is None else out[index]
            if t is None or t._type != type_:
                raise self._misfit("None" if t is None else str(t._type), str(type_))
            slots[slot] = t

    @property
    def name(self) -> str:
        """Of the op or function."""
        named = getattr(self.args[0], "name", "") if self.args and isinstance(self.args[0], type) else ""
        return named or getattr(self.fn, "__name__", "a function")

    def _misfit(self, got: str, expected: str) -> Exception:
        return misfit(self.labels, self.name, self.where, got, expected, self.advice)


class Renew(Action):
    """A tensor that the body makes from nothing, and that something may change or keep: each call has its own."""

    def __init__(self, slot: int, source: Tensor) -> None:
        self.slot = slot
        self.array = source._data.copy(order="K")
        self.type = source._type
        self.cls = type(source)

    def run(self, call: ScriptCall) -> None:
        call.slots[self.slot] = wrap(self.array.copy(order="K"), self.type, self.cls)
