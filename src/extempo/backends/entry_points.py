"""Entry points: the functions that native code replaces, each beside the Python function that it mirrors.

Extempo is whole without native code. When the native backend is loaded (`selection.native`, at the first op), the
functions listed here are exchanged for native calls, and no function is exchanged for one anywhere else. A native call
does the usual case and calls its Python default, or answers that it has done nothing, for everything else: results are
the same, bit for bit. With `EXTEMPO_BACKEND=numpy` the defaults stay; inside `python_defaults()` they are back.

A default is bound where it is defined, in one of two ways. Functions that are looked up as an attribute whenever they
are called (of a module, an instance, a class) are exchanged by setting that attribute, which costs a call nothing. A
function that other modules import by name is a `functools.partial`, whose `func` can be exchanged under everybody, and
which makes no frame of its own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Function = Callable[..., Any]

TABLE: list[EntryPoint] = []
_is_native = False  # whether native calls stand where they can


class EntryPoint:
    """A row of the table: a function that native code replaces, or a family of them (one for each op, for example)."""

    def __init__(self, replaced: str, native: str, mirrors: str | None = None) -> None:
        """Paths inside `extempo`: of what is replaced, and of the Python that does the same, where that is another.

        `native` is the path inside `extempo.backends.llvm` of the function that writes the native code.
        """
        self.replaced = replaced
        self.native = native
        self.mirrors = mirrors or replaced
        self.bindings: list[Binding] = []
        TABLE.append(self)

    def bind(
        self, owner: Any, name: str, make_native: Callable[[], Function | None], default: Function | None = None
    ) -> Binding:
        """Let native code replace an attribute of `owner`, `func` of a partial; what stands there is the default.

        `make_native` is called once, when there is a native backend; None: the default stays.
        """
        return self._add(Binding(owner, name, default or getattr(owner, name), make_native, on_call=False))

    def function(self, make_native: Callable[[], Function | None]) -> Callable[[Function], Function]:
        """A decorator for the default, a function of a module that is always called as the module's attribute.

        `make_native` is called by the first call: most programs never make a batch, many no plan.
        """

        def bound(default: Function) -> Function:
            owner = sys.modules[default.__module__]
            return self._add(Binding(owner, default.__name__, default, make_native, on_call=True)).standing

        return bound

    def _add(self, binding: Binding) -> Binding:
        self.bindings.append(binding)
        if _is_native:
            binding.install()
        else:
            binding.restore()
        return binding


class Binding:
    """One function that is replaced: where it stands, its Python default, and how its native call is made."""

    __slots__ = ("_make_native", "_native", "_on_call", "default", "name", "owner", "standing")

    def __init__(
        self, owner: Any, name: str, default: Function, make_native: Callable[[], Function | None], on_call: bool
    ) -> None:
        self.owner = owner
        self.name = name
        self.default = default
        self.standing = default
        self._make_native = make_native
        self._native: Function | None = None
        self._on_call = on_call

    def native(self) -> Function:
        """The native call; the default where there is none."""
        if self._native is None:
            self._native = self._make_native() or self.default
        return self._native

    def renew(self) -> None:
        """Have the native call made anew, with nothing prepared for it."""
        self._native = None
        if _is_native:
            self.install()

    def install(self) -> None:
        """From now on the native call."""
        self._put(self._first_call if self._on_call and self._native is None else self.native())

    def restore(self) -> None:
        """From now on the Python default."""
        self._put(self.default)

    def _put(self, function: Function) -> None:
        self.standing = function
        if isinstance(self.owner, functools.partial):
            self.owner.__setstate__((function, (), {}, {}))  # type: ignore[attr-defined] # it has one since Python 3.0
        else:
            setattr(self.owner, self.name, function)

    def _first_call(self, *args: Any) -> Any:
        native = self.native()
        if getattr(self.owner, self.name) == self._first_call:  # nobody has put something around it, or the default
            self.install()
        return native(*args)


def install() -> None:
    """There is a native backend: native calls stand from now on, also where something is bound later."""
    _switch(True)


@contextmanager
def python_defaults() -> Iterator[None]:
    """Within the block, in all threads, every Python default stands; kernels are still native. For tests.

    >>> with python_defaults():
    ...     (ex.ones(2) + 1).tolist()
    [2.0, 2.0]
    """
    before = _is_native
    _switch(False)
    try:
        yield
    finally:
        _switch(before)


def _switch(is_native: bool) -> None:
    global _is_native
    _is_native = is_native
    for entry_point in TABLE:
        for binding in list(entry_point.bindings):
            if is_native:
                binding.install()
            else:
                binding.restore()


# ---- the table: what is replaced, what writes the native code, what that mirrors

# One op, now.
APPLY = EntryPoint("dispatch.dispatcher.apply", "calls.dispatch.write_apply", "dispatch.dispatcher.dispatch")
FAST_OP = EntryPoint("dispatch.fast_path.FastOp.run", "calls.launch._write_launch", "dispatch.dispatcher.run_eager")
OPERATOR = EntryPoint(  # and all other operators of Tensor that are ops of two inputs
    "core.tensor_methods.TensorMethods.__add__", "calls.launch._write_operator", "dispatch.fast_path.runner2"
)
INLINE_CACHE = EntryPoint(
    "dispatch.inline_cache.InlineCache.call",
    "calls.inline_cache.write_front",
    "dispatch.inline_cache.InlineCache._slow",
)

# Backward.
REACH = EntryPoint("autograd.native_engine.reach", "calls.backward_engine._write_reach")
WALK = EntryPoint(
    "autograd.native_engine.walk", "calls.backward_engine._write_walk", "autograd.engine.BackwardEngine._visit"
)
ADD = EntryPoint("autograd.native_engine.add", "calls.sums._write_python_add", "autograd.accumulating._add_in_place")
ALL_FINITE = EntryPoint("autograd.native_engine.all_finite", "calls.finiteness._write_all_finite")
SETTLE = EntryPoint("autograd.native_engine.settle", "calls.finiteness._write_settle")

# Optimizers.
SAME = EntryPoint("optim.change_detection.same", "routines.stepping._write_same")
GRADIENTS = EntryPoint("optim.flat_buffers.gradients_in_place", "routines.stepping._write_gradients")
WRITTEN = EntryPoint("optim.flat_buffers.count_writes", "routines.stepping._write_written")

# Traces.
EXTEND_ESCAPED = EntryPoint(
    "tracing.tracer._extend_escaped", "calls.tracing.write_record", "tracing.tracer.Tracer.append"
)
RUN_SEGMENT = EntryPoint(
    "tracing.executor._flush_known", "calls.segment.write_flush", "tracing.executor.TraceExecutor._flush"
)
RUN_BACKWARD = EntryPoint(
    "tracing.executor._backward_known",
    "calls.planned_backward.write_backward",
    "tracing.backward.backward_by_plan",
)

# Batches.
CALL_CELL = EntryPoint("nn.module.call_cell", "calls.batch._write_call", "batching.sample_tracer.call_cell")
RECORD_OP = EntryPoint(
    "backends.llvm.calls.launch.Launcher.record_op",
    "calls.batch._write_apply",
    "batching.sample_tracer.SampleTracer.apply",
)
READ_LINE = EntryPoint("batching.run._line_of_read", "calls.batch._write_line_now")
AS_ARRAY = EntryPoint("batching.agenda._array_of_ints", "calls.batch._write_as_array")
NOTE_MAKERS = EntryPoint("batching.agenda._note_makers", "calls.batch._write_note_makers")
SOURCES = EntryPoint("batching.agenda._sources_of", "calls.batch._write_sources")
DEPTHS = EntryPoint("batching.agenda._depths", "calls.batch._write_depths")
AGENDA = EntryPoint("batching.agenda.agenda", "calls.batch._write_agenda")
