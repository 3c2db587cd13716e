"""Provenance: for each tensor of the recorded call its slot, its value in the trace, and whether it is constant."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from ...core.graph import Where
from ...core.tensor import Tensor
from .trace_actions import RecordedTrace


class Provenance:
    """What a tensor of the recorded call is."""

    __slots__ = ("constant", "numbers", "place", "recorded", "ref", "slot", "where")

    def __init__(self, x: Tensor, slot: int, where: Where | None = None) -> None:
        self.ref = weakref.ref(x)
        self.slot = slot
        self.where = where  # the line that made it, if it must not be kept after the call
        self.constant = False  # made from nothing, and not changed so far
        self.numbers: Any = None  # of which it was made, if of nothing else, and not changed so far
        self.recorded: RecordedTrace | None = None  # a handle gets its slot once something reads it
        self.place = -1


class AskedFor(NamedTuple):
    """A gradient that was asked for: when, of which tensor, and what it was."""

    n_effects: int
    of: Tensor
    gradient: Any

    def holds(self, n_effects: int, of: Tensor, gradient: Any) -> bool:
        return self.n_effects == n_effects and self.of is of and self.gradient is gradient
