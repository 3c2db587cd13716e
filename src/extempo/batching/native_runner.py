"""Running calls of one kind as one, by native plans that are made once for a kind and fit any number of calls.

What the kind does to rows is traced (tracing), cut into forward, backward and the rest (splitting), and made into
templates (programs, planning.templates). A template is filled in for a number of calls when that first comes up.
Results equal those of `VmapRunner` but for rounding. Arrays that are returned may be arrays that were given, or one
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backends.selection import native
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType
from ..errors import GraphError
from .kinds import CallKind
from .rows import RowTable
from .vmap_runner import VmapRunner

if TYPE_CHECKING:
    from .programs import Back, Programs


class NativeRunner:
    """A Runner."""

    def __init__(self, kind: CallKind, shared: tuple[bool, ...]) -> None:
        self._kind = kind
        self.shared = shared
        self._plain = VmapRunner(kind, shared)
        pairs = list(enumerate(zip(kind.inputs, shared, strict=True)))
        self._numbers = [(k, i.type, s) for k, (i, s) in pairs if not isinstance(i.type, TensorType)]
        # Whether what is to be planned is known only when inputs come: the dtype of rows of numbers, a bool.
        self._waits = any(not s or t is bool for _, t, s in self._numbers)
        self._programs: dict[tuple[Any, ...], Programs | None] = {}

    @classmethod
    def make(cls, kind: CallKind, shared: tuple[bool, ...]) -> NativeRunner | None:
        """The runner; None where no plan can be made, or there is no native code."""
        if native() is None:
            return None
        made = cls(kind, shared)
        return None if not made._waits and made._for([None] * len(shared)) is None else made

    def _for(self, inputs: Sequence[Any]) -> Programs | None:
        """The programs for inputs like these."""
        if not self._numbers and self._programs:
            return self._programs[()]
        key = tuple([(inputs[k] if t is bool else t) if s else inputs[k].dtype for k, t, s in self._numbers])
        if key not in self._programs:
            self._programs[key] = self._made(key)
        return self._programs[key]

    def _made(self, key: tuple[Any, ...]) -> Programs | None:
        from .programs import Programs

        try:
            return Programs(self._kind, self.shared, key)
        except Exception:  # whatever a function may have against symbols: op by op it says so itself
            return None

    def forward(self, inputs: Sequence[Any], n: int) -> tuple[list[Array], Any]:
        programs = self._for(inputs)
        run = None if programs is None else programs.at(n)
        if programs is None or run is None:
            return self._plain.forward(inputs, n)
        leaves, numbers = programs.leaves(inputs, n), programs.numbers(inputs)
        if leaves is None:
            return self._plain.forward(inputs, n)
        made = run([leaves[i] for i in programs.reads], numbers)
        if type(made) is not list:  # some value is an error, which the ops themselves can tell
            return self._plain.forward(inputs, n)
        there = leaves + made
        results = [there[i] for i in programs.results]
        if not programs.is_tracked:
            return results, None
        return results, _Saved(programs, n, numbers, [there[i] for i in programs.saved])

    def forward_of_rows(self, table: RowTable, refs: Any, firsts: Any) -> Any:
        """The same on rows of a table, for inputs that are all tensors and not shared: results get their numbers.

        What backward needs; None if there is nothing, False if nothing was done because this is not the way.
        """
        if self._waits:
            return False
        programs, n = self._programs[()], len(firsts)
        run = None if programs is None else programs.at(n)
        if programs is None or run is None:
            return False
        leaves = table.gather_columns(refs, programs.rows)
        if not programs.add_captured(leaves):
            return False
        made = run([leaves[i] for i in programs.reads], programs.literals)
        if type(made) is not list:
            return False
        there = leaves + made
        for i, place in enumerate(programs.results):
            table.add_at(firsts + i if i else firsts, there[place])
        if not programs.is_tracked:
            return None
        return _Saved(programs, n, programs.literals, [there[i] for i in programs.saved])

    @property
    def programs_of_rows(self) -> Programs | None:
        """What runs if all inputs are tensors; None if that is not so, or nothing can."""
        return None if self._waits else self._programs[()]

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        if type(saved) is not _Saved:
            return self._plain.backward(saved, gradients)
        kind, (programs, n, numbers, arrays) = self._kind, saved
        given = tuple([t and g is not None for t, g in zip(kind.tracked, gradients, strict=True)])
        if True not in given:
            return [None] * len(kind.inputs), []
        back = programs.backward_for(given)
        there = list(arrays)
        for g, wanted, t in zip(gradients, back.given, kind.results, strict=True):
            if wanted:
                if g is None:
                    g = np.zeros((n, *t.shape), t.dtype.numpy)
                elif g.shape != (n, *t.shape) or g.dtype != t.dtype.numpy:
                    raise GraphError(f"backward: a gradient of {n} rows of {t} is {g.dtype}{list(g.shape)}")
                there.append(g if g.flags.carray else np.array(g, order="C"))
        made = back.run(n, [there[i] for i in back.reads], numbers)
        if isinstance(made, int):
            raise GraphError(f"backward: {kind.name} has no gradient for some of its values")
        there += made
        of_inputs = [None if i is None else there[i] for i in back.of_inputs]
        return of_inputs, DeferredGradients(
            back, n, [there[i] for i in back.rows_at], [there[i] for i in back.parts_at]
        )

    def finish(self, rests: list[Any]) -> list[tuple[Tensor, Array]]:
        plain = [rest for rest in rests if type(rest) is not DeferredGradients]
        found = self._plain.finish(plain) if plain else []
        leaders: dict[Back, list[DeferredGradients]] = {}
        same: dict[Back, list[DeferredGradients]] = {}
        for rest in rests:
            if type(rest) is DeferredGradients:
                same.setdefault(rest.back, []).append(rest)
                leaders.setdefault(rest.back.leader, []).append(rest)
        for back, own in same.items():
            found += back.of_parts(own)
        for back, own in leaders.items():
            found += back.finish(own)
        totals: dict[int, tuple[Tensor, Array]] = {}
        for t, g in found:
            totals[id(t)] = (t, totals[id(t)][1] + g if id(t) in totals else g)
        return list(totals.values())


class _Saved(NamedTuple):
    programs: Programs
    n: int
    numbers: list[Any]
    arrays: list[Array]


class DeferredGradients(NamedTuple):
    """What a backward leaves for the end."""

    back: Back
    n: int  # calls
    rows: list[Array]  # that the end reads, in the order in which the leader wants them; behind n calls may be zeros
    parts: list[Array]  # of gradients of captured tensors
