"""Call cache: argument pattern, kind and result structure of a recorded call, in the form that native code matches.

Native code (`backends/llvm/calls/batch.py`) compares a call with the cached ones of its cell or op and, if one fits,
records it as `SampleTracer` would, with nothing left to Python. What a pattern cannot say is not cached.
"""

from __future__ import annotations

import functools
import struct
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import entry_points
from ..backends.llvm.calls import patterns
from ..core.graph import Extra, Leaf, Node
from ..core.op import Op
from ..core.tensor import Tensor
from ..core.types import DEFAULT_DTYPE_LISTENERS, TensorType
from ..nn.parameter import Parameter
from ..nn.tables import CHANGES
from .kinds import CallKind
from .purity_guards import PurityGuards
from .read_guards import MISSING, ContainerGuard

if TYPE_CHECKING:
    from ..backends.llvm.calls.batch import BatchTracer

MOST_CACHED_CALLS = 64  # of one cell, or of one op on tensors of some types
_MOST_TYPES = 2_000  # that calls of one op are cached for
# Of ops that read no leaf, by the types of their tensors; those of others are kept by the first leaf that they read,
# and go with it.
OpCalls = dict[tuple[TensorType, ...], "list[CachedCall]"]
OP_CALLS: dict[type[Op], OpCalls] = {}
DEFAULT_DTYPE_LISTENERS.append(OP_CALLS.clear)
_EXACT = (Tensor, Parameter)


class CachedCall:
    """What calls that native code can record have in common."""

    __slots__ = ("attrs", "grad", "kind", "make", "pattern", "reads", "referents")

    def __init__(self, kind: CallKind, grad: bool, pattern: _Pattern) -> None:
        self.kind = kind
        self.grad = grad
        self.pattern = pattern.packed()
        self.referents = pattern.referents  # keeps alive what the pattern refers to
        self.make: Any = None  # of a tuple of results, what the call returns; None: the only one
        self.attrs: dict[str, Any] | None = None  # of an op
        self.reads: PurityGuards | None = None  # by a cell

    def of_twin(self, reads: PurityGuards) -> CachedCall:
        """The same of a cell that is another one's twin."""
        made = object.__new__(CachedCall)
        made.kind, made.grad, made.pattern, made.referents = self.kind, self.grad, self.pattern, self.referents
        made.make, made.attrs, made.reads = self.make, self.attrs, reads
        return made


class _NotOrdinary(Exception):
    """Something that a pattern cannot say."""


class _Pattern:
    """A pattern while it is written."""

    def __init__(self, n_arguments: int, n_names: int, views: bool) -> None:
        self._words: list[int] = [n_arguments, n_names, int(views)]
        self._n_inputs = 0
        self.referents: list[Any] = []

    def packed(self) -> bytes:
        if self._n_inputs > patterns.MOST_INPUTS:
            raise _NotOrdinary
        return struct.pack(f"={len(self._words)}q", *self._words)

    def add(self, code: int, referent: Any, second: int = 0) -> None:
        self._words += (code, id(referent), second)
        self._n_inputs += code in (patterns.TENSOR, patterns.NUMBER)
        self.referents.append(referent)

    def tensor(self, x: Any, grad: bool, flag: int) -> None:
        if type(x) not in _EXACT:
            raise _NotOrdinary
        self.add(patterns.TENSOR, x._type, (flag if grad and x.requires_grad else 0))

    def leaf(self, x: Tensor) -> None:
        self.referents.append(x._type)
        self.add(patterns.LEAF, x, id(x._type))

    def argument(self, x: Any, grad: bool) -> None:
        """Of a cell, as `signatures.take_apart` sees it."""
        kind = type(x)
        if isinstance(x, Tensor):
            self.tensor(x, grad, patterns.TRACKED)
        elif kind is int or kind is float:
            self.add(patterns.NUMBER, kind)
        elif isinstance(x, (tuple, list)):
            self.add(patterns.TUPLE if isinstance(x, tuple) else patterns.LIST, kind, len(x))
            for part in x:
                self.argument(part, grad)
        elif kind in (str, bytes):
            self.add(patterns.EQUAL, x)
        elif isinstance(x, (dict, np.ndarray, np.generic)):
            raise _NotOrdinary
        elif x is None or kind is bool:
            self.add(patterns.SAME, x)
        else:  # an object is known by its id, as long as it lives
            try:
                self.add(patterns.REFERRED, weakref.ref(x))
            except TypeError:
                self.add(patterns.SAME, x)

    def operand(self, x: Any, grad: bool, varying: bool) -> None:
        """Of an op; `varying`: numbers are inputs."""
        if x is None:
            self.add(patterns.SAME, None)
        elif not isinstance(x, Tensor):
            self.add(patterns.NUMBER, type(x)) if varying else self.add(patterns.EQUAL, x)
        elif grad and type(x._history) is Node and x._history.op is Leaf:
            self.leaf(x)
        else:
            self.tensor(x, grad, patterns.TRACKED | patterns.NO_LEAF)


def cache_cell_call(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    grad: bool,
    kind: CallKind,
    rebuild: Callable[[list[Any]], Any],
    reads: PurityGuards,
) -> CachedCall | None:
    """The cached form of a call of a cell; None if native code cannot record such calls."""
    try:
        pattern = _Pattern(len(args), len(kwargs), False)
        for x in args:
            pattern.argument(x, grad)
        for name, x in kwargs.items():
            pattern.add(patterns.NAME, name)
            pattern.argument(x, grad)
        cached = CachedCall(kind, grad, pattern)
    except (_NotOrdinary, RecursionError):
        return None
    if len(kind.results) > patterns.MOST_RESULTS:
        return None
    probe = object()
    cached.make = None if len(kind.results) == 1 and rebuild([probe]) is probe else rebuild
    cached.reads = reads
    return cached


def learn_op(
    op: type[Op],
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    grad: bool,
    kind: CallKind,
    single: bool,
    varying: bool,
) -> None:
    """Let native code record the next calls of an op like one that was recorded."""
    if len(kind.inputs) > patterns.MOST_INPUTS or len(kind.results) > patterns.MOST_RESULTS:
        return
    leaves = kind.captured  # those that are part of the kind
    by_types: OpCalls = (leaves[0]._history.extra.kinds if leaves else OP_CALLS).setdefault(op, {})
    if len(by_types) >= _MOST_TYPES:
        by_types.clear()
    cached_calls = by_types.setdefault(tuple([x._type for x in inputs if isinstance(x, Tensor)]), [])
    views = op.aliases_input
    if any(one.kind is kind and one.grad is grad for one in cached_calls) or (views and leaves):
        return
    try:
        pattern = _Pattern(len(inputs), 0, views)
        for x in inputs:
            pattern.operand(x, grad, varying)
        cached = CachedCall(kind, grad, pattern)
    except _NotOrdinary:
        return
    cached.make = None if single else tuple
    cached.attrs = attrs
    cached_calls.insert(0, cached)
    del cached_calls[MOST_CACHED_CALLS:]


@functools.cache
def recorder() -> BatchTracer:
    """What records calls natively, loaded when first asked for; there must be a native backend."""
    from ..backends.llvm.calls.batch import BatchClasses, load_recorder
    from ..dispatch.fast_path import launcher
    from .agenda import Calls
    from .cells import CELLS_OF_MODULES, Cell
    from .parts import PLACES, Parts
    from .run import BatchExecutor
    from .sample_tracer import SampleTracer, call_cell

    classes = BatchClasses(
        SampleTracer, BatchExecutor, Calls, CallKind, Cell, CachedCall, PurityGuards, ContainerGuard, Extra, Parts
    )
    known = {
        "missing": MISSING,
        "changes": CHANGES,
        "cells": CELLS_OF_MODULES,
        "ops": OP_CALLS,
        "from_outside": BatchExecutor._from_outside,
        "new_kind": BatchExecutor._new_kind,
        "slow_call": call_cell,
        "slow_op": SampleTracer.apply,
        "places": PLACES,
    }
    made = load_recorder(launcher(), classes, known)
    entry_points.RECORD_OP.bind(launcher(), "record_op", lambda: made.apply, SampleTracer.apply)
    launcher().set_sample(SampleTracer)
    return made
