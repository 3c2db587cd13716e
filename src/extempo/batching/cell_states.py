"""What a cell knows of its calls: signatures, and for each what the body does as long as what it reads stays the same.

`moved` gives what another cell knows that is the first one's twin (`cell_twins`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..core.tensor import Tensor
from .call_cache import CachedCall
from .kinds import CallKind
from .purity_guards import PurityGuards


class CellCall:
    """One call of a cell: its kind, the inputs, and how the results become what the function returns."""

    __slots__ = ("inputs", "kind", "rebuild", "state")

    kind: CallKind
    inputs: list[Any]
    rebuild: Callable[[list[Tensor]], Any]
    state: CellState | None  # if that alone decides what calls with such arguments are


class CellArguments(NamedTuple):
    """The arguments of one call, and the tensors and numbers among them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: list[Any]
    grad: bool


class CellState:
    """What a body does as long as what it reads stays the same. Without a kind, its ops run as such."""

    __slots__ = ("cached", "declined", "kind", "reads", "rebuild")

    def __init__(self, reads: PurityGuards) -> None:
        self.reads = reads
        self.kind: CallKind | None = None
        self.rebuild: Callable[[list[Tensor]], Any] = list
        self.declined = ""  # why there is no kind
        self.cached: CachedCall | bool | None = None  # False: native code cannot record such calls

    def moved(self, counterparts: dict[int, Any]) -> CellState:
        """The state of a twin."""
        made = CellState(self.reads.moved(counterparts))
        made.kind, made.rebuild, made.declined = self.kind, self.rebuild, self.declined
        made.cached = self.cached.of_twin(made.reads) if isinstance(self.cached, CachedCall) else self.cached
        return made


class ArgumentLayout:
    """One signature, and what calls of it are."""

    __slots__ = ("looked_at", "marks", "objects", "states")

    def __init__(self, marks: list[Any]) -> None:
        self.marks = marks  # more than there were, so that they equal none, once an object that they name is gone
        self.objects: list[Any] = []  # weak references to objects among the arguments, or those themselves
        self.looked_at: tuple[int, ...] = ()  # numbers that are part of the signature, because the body looks at them
        self.states: dict[tuple[Any, ...], list[CellState]] = {}  # by those numbers, the last one used first

    def moved(self, counterparts: dict[int, Any]) -> ArgumentLayout:
        """The layout of a twin. Both know when an object among the arguments is gone."""
        made = ArgumentLayout(self.marks)
        made.objects, made.looked_at = self.objects, self.looked_at
        made.states = {values: [one.moved(counterparts) for one in states] for values, states in self.states.items()}
        return made
