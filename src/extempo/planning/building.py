"""plan(request): a plan for what has been recorded and not run yet, and for a backward through all of it.

A plan depends on its request only. It reads leaves and kept values and writes nothing but new arrays. What makes plans
is loaded with the first of them, because it needs the native backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..storage import Array
from ..tape import LeafKind, Step
from .reading import reads

__all__ = ["Backward", "Plan", "Request", "Unplannable", "plan", "reads"]


class Unplannable(Exception):
    """Why there is no plan for a request; it is then run op by op."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Backward(NamedTuple):
    """A backward from one value."""

    root: int  # a place
    seed: int  # the ref of the gradient that comes in, a leaf


class Request(NamedTuple):
    """What is to be planned."""

    steps: Sequence[Step]  # the tape so far
    start: int  # steps before this one have been run
    leaves: Sequence[LeafKind]
    kept: frozenset[int]  # places of steps before `start` whose arrays are there, their elements in order
    wanted: tuple[int, ...]  # places whose arrays are to be returned
    backward: Backward | None = None


class Plan:
    """Instructions that are ready to run. `run(arrays of inputs, numbers)` returns `wanted`, then `gradients`.

    It returns an int instead where it could not be finished: the step that is to blame, or -1.
    """

    __slots__ = ("_said", "_steps", "arena_bytes", "gradients", "inputs", "n_fused", "n_instructions", "run")

    def __init__(
        self,
        inputs: tuple[int, ...],
        gradients: tuple[int, ...],
        run: Callable[[list[Array], list[Any]], list[Array] | int],
        said: Sequence[Any],
        steps: Sequence[Step],
        n_fused: int,
        arena_bytes: int,
    ) -> None:
        self.inputs = inputs  # refs: leaves and kept places
        self.gradients = gradients  # indices of leaves
        self.run = run
        self.n_instructions = len(said)
        self.n_fused = n_fused  # elementwise nodes that run within another's kernel
        self.arena_bytes = arena_bytes
        self._said = said
        self._steps = steps

    def describe(self) -> str:
        """One line for each instruction."""
        return "\n".join(said.text(self._steps) for said in self._said)


def plan(request: Request) -> Plan | Unplannable:
    """The plan of a request, or why there is none."""
    from .planner import made

    try:
        return made(request)
    except Unplannable as error:
        return error.with_traceback(None)  # which would keep alive all that was built
