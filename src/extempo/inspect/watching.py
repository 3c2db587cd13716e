"""`ex.watch`: a line for each op as it runs."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from ..core.interrupts import Undone
from ..core.tensor import Tensor
from .choosing import Choice, Patterns
from .looking import look
from .observing import BACKWARD, Event, Watcher, watch_ops


class watch(Undone):
    """Within the block, print each node as it forms: op, result, module and line; in backward each node's gradients.

    op, module: names or patterns, such as "exp" or "encoder.*". shape: of a result, with None for any size. phase:
    "forward" or "backward". file: where to; standard output as a rule. Functions of `ex.compile` and `ex.batch` run
    op by op inside.

    >>> x = ex.tensor([1.0, 2.0], requires_grad=True)
    >>> with ex.watch(op=["exp", "sum"]):
    ...     x.exp().sum().backward()
    exp                float32 (2,), 2.718 .. 7.389, mean 5.054, std 2.335  █······█  <...>:2
    sum                float32 (), all 10.11  <...>:2
    sum backward       float32 (2,), all 1  <...>:2
    exp backward       float32 (2,), 2.718 .. 7.389, mean 5.054, std 2.335  █······█  <...>:2
    """

    def __init__(
        self,
        op: Patterns = None,
        module: Patterns = None,
        shape: Any = None,
        phase: str | None = None,
        file: TextIO | None = None,
    ) -> None:
        self._lines = _Lines(Choice("watch", op, module, shape, phase), file)
        self._watching: watch_ops | None = None

    def _begin(self) -> None:
        self._watching = watch_ops(self._lines)

    def _end(self) -> None:
        if self._watching is not None:
            self._watching.remove()


class _Lines(Watcher):
    def __init__(self, choice: Choice, file: TextIO | None) -> None:
        self._choice = choice
        self._file = file

    def ran(self, event: Event) -> None:
        if event.phase != BACKWARD and self._choice.takes(event):
            self._print(event)

    def differentiated(self, event: Event) -> None:
        if self._choice.takes(event):
            self._print(event)

    def failed(self, event: Event, error: Exception) -> None:
        if event.phase != BACKWARD and self._choice.takes(event._replace(results=event.inputs)):
            print(f"{_title(event)}  raised {type(error).__name__}  {_place(event)}", file=self._file or sys.stdout)

    def _print(self, event: Event) -> None:
        told = "; ".join(str(look(x)) for x in event.results if isinstance(x, Tensor)) or "no tensor"
        print(f"{_title(event)}  {told}  {_place(event)}", file=self._file or sys.stdout)


def _title(event: Event) -> str:
    return f"{event.op.name}{' backward' if event.phase == BACKWARD else ''}".ljust(17)


def _place(event: Event) -> str:
    return " ".join(part for part in (event.module, os.path.basename(event.line)) if part)
