"""Call cache: argument pattern, kind and result structure of a recorded call, in the form that native code matches.

Native code (`backends/llvm/calls/batch.py`) compares a call with the cached ones of its cell or op and, if one fits,
records it as `SampleTracer` would, with nothing left to Python. What a pattern cannot say is not cached.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import selection
from ..backends.llvm.calls import patterns
from ..core.graph import Extra, Leaf, Node
from ..core.op import Op
from ..core.tensor import Tensor
from ..core.types import DEFAULT_DTYPE_LISTENERS
from ..nn.parameter import Parameter
from ..nn.tables import CHANGES
from .kinds import CallKind
from .purity_guards import _MISSING, PurityGuards, _Content

if TYPE_CHECKING:
    from ..backends.llvm.calls.batch import BatchTracer

MOST_WAYS = 64  # of one cell or op
OP_WAYS: dict[
    type[Op], list[CachedCall]
] = {}  # those that read no leaf; the others stand with the first leaf they read
DEFAULT_DTYPE_LISTENERS.append(OP_WAYS.clear)
_EXACT = (Tensor, Parameter)


class CachedCall:
    """What calls that native code can record have in common."""

    __slots__ = ("attrs", "grad", "kind", "make", "pattern", "reads", "said")

    def __init__(self, kind: CallKind, grad: bool, pattern: _Pattern) -> None:
        self.kind = kind
        self.grad = grad
        self.pattern = pattern.packed()
        self.said = pattern.said  # keeps alive what the pattern refers to
        self.make: Any = None  # of a tuple of results, what the call returns; None: the only one
        self.attrs: dict[str, Any] | None = None  # of an op
        self.reads: PurityGuards | None = None  # by a cell


class _NotOrdinary(Exception):
    """Something that a pattern cannot say."""


class _Pattern:
    """A pattern while it is written."""

    def __init__(self, n_arguments: int, n_names: int, views: bool) -> None:
        self._words: list[int] = [n_arguments, n_names, int(views)]
        self._n_inputs = 0
        self.said: list[Any] = []

    def packed(self) -> bytes:
        if self._n_inputs > patterns.MOST_INPUTS:
            raise _NotOrdinary
        return struct.pack(f"={len(self._words)}q", *self._words)

    def add(self, code: int, said: Any, second: int = 0) -> None:
        self._words += (code, id(said), second)
        self._n_inputs += code in (patterns.TENSOR, patterns.NUMBER)
        self.said.append(said)

    def tensor(self, x: Any, grad: bool, flag: int) -> None:
        if type(x) not in _EXACT:
            raise _NotOrdinary
        self.add(patterns.TENSOR, x._type, (flag if grad and x.requires_grad else 0))

    def leaf(self, x: Tensor) -> None:
        self.said.append(x._type)
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


def way_of_call(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    grad: bool,
    kind: CallKind,
    rebuild: Callable[[list[Any]], Any],
    reads: PurityGuards,
) -> CachedCall | None:
    """The way of a call of a cell; None if it has none."""
    try:
        pattern = _Pattern(len(args), len(kwargs), False)
        for x in args:
            pattern.argument(x, grad)
        for name, x in kwargs.items():
            pattern.add(patterns.NAME, name)
            pattern.argument(x, grad)
        way = CachedCall(kind, grad, pattern)
    except (_NotOrdinary, RecursionError):
        return None
    if len(kind.results) > patterns.MOST_RESULTS:
        return None
    probe = object()
    way.make = None if len(kind.results) == 1 and rebuild([probe]) is probe else rebuild
    way.reads = reads
    return way


def learn_op(
    op: type[Op],
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    grad: bool,
    kind: CallKind,
    single: bool,
    varying: bool,
) -> None:
    """Remember the way of an op that was recorded."""
    if len(kind.inputs) > patterns.MOST_INPUTS or len(kind.results) > patterns.MOST_RESULTS:
        return
    leaves = kind.captured  # those that are part of the kind
    ways = (leaves[0]._history.extra.kinds if leaves else OP_WAYS).setdefault(op, [])
    views = op.aliases_input
    if any(one.kind is kind and one.grad is grad for one in ways) or (views and leaves):
        return
    try:
        pattern = _Pattern(len(inputs), 0, views)
        for x in inputs:
            pattern.operand(x, grad, varying)
        way = CachedCall(kind, grad, pattern)
    except _NotOrdinary:
        return
    way.make = None if single else tuple
    way.attrs = attrs
    ways.insert(0, way)
    del ways[MOST_WAYS:]


_recorder: list[BatchTracer | None] = []


def recorder() -> BatchTracer | None:
    """The native recorder, loaded when first asked for; None without native code."""
    if not _recorder:
        backend = selection.native()
        _recorder.append(None if backend is None else _load())
    return _recorder[0]


def _load() -> BatchTracer:
    from ..backends.llvm.calls.batch import BatchClasses, load_recorder
    from ..dispatch.fast_path import launcher
    from .agenda import Calls
    from .cells import _OF_MODULES, Cell
    from .run import BatchExecutor
    from .sample_tracer import SampleTracer, call_cell

    classes = BatchClasses(
        SampleTracer, BatchExecutor, Calls, CallKind, Cell, CachedCall, PurityGuards, _Content, Extra
    )
    known = {
        "missing": _MISSING,
        "changes": CHANGES,
        "cells": _OF_MODULES,
        "ops": OP_WAYS,
        "from_outside": BatchExecutor._from_outside,
        "new_kind": BatchExecutor._new_kind,
        "slow_call": call_cell,
        "slow_op": SampleTracer.apply,
    }
    return load_recorder(launcher(), classes, known)
