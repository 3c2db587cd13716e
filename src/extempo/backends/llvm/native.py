"""The native backend as the rest of Extempo sees it: kernels for ops and for graphs, memory, counters.

Made once by `backends.selection.native()`. `code(op, types, attrs, signature)` says what runs an op, or None where the
NumPy kernel is to run, and `load` makes it a callable on arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.graph import Graph, Node
from ...core.op import REGISTRY, Op, Routine, Signature
from ...core.types import TensorType, float32, float64
from .calls import glue
from .calls.backward_engine import NativeGradient, Walker
from .calls.memory import MemoryPool
from .calls.rows import RowCode, load_rows
from .calls.spread import Spread
from .calls.views import packed, view_call, words_of
from .elementwise import kernels
from .elementwise.broadcasting import MAX_INPUTS, MAX_RESULTS
from .ir.machine import machine
from .routines.routine import ROUTINES
from .threads import pool as threads


class Code(NamedTuple):
    """A kernel but for what runs where it declines."""

    name: str
    words: tuple[int, ...] | None  # of a routine's record: all of it that depends on sizes
    elementwise: kernels.ElementwiseKernel | None
    keep: Any = None  # what words refer to that was made for them
    spread: Callable[..., Any] | None = None  # `spread(fallback)` runs where an input is large only by expansion


class Native:
    """Everything that was loaded."""

    def __init__(self) -> None:
        self.memory = MemoryPool()
        threads.install()
        self.runtime = kernels.runtime()
        self._rows: RowCode | None = None
        from .routines import registry  # noqa: F401 - importing it registers the routines

        self._test_itself()

    def code(self, op: type[Op], types: tuple[Any, ...], attrs: dict[str, Any], signature: Signature) -> Code | None:
        """What the op's native kernel is for inputs of these types, whose sizes may be symbolic."""
        if not isinstance(op.lower, Routine):
            made = kernels.of_op(op, types, attrs, signature)
            return None if made is None else Code(op.name, None, made)
        bind = ROUTINES.get(op.lower.name)
        bound = bind(types, attrs) if bind is not None else None
        words = None if bound is None else glue.words_of(bound, types)
        if bound is None or words is None:
            return None
        spread = partial(Spread, op.lower.name, attrs) if bound.in_parts else None
        return Code(op.name, words, None, bound.keep, spread)

    def load(
        self, code: Code, words: tuple[int, ...] | None, fallback: Callable[..., Any]
    ) -> Callable[..., Any] | None:
        """The kernel of that code with these words; None where they are too large for native code."""
        if code.elementwise is not None:
            return code.elementwise.callable(fallback)
        assert words is not None
        if code.spread is not None:
            fallback = code.spread(fallback)
        return glue.callable_on(code.name, words, fallback, code.keep)

    def view_words(
        self, op: type[Op], types: tuple[Any, ...], attrs: dict[str, Any], result: TensorType
    ) -> tuple[int, ...] | None:
        """How native code makes a view; None where NumPy does."""
        return words_of(op.name, types, result, attrs)

    def view(self, words: tuple[int, ...] | None) -> bytearray | None:
        """The record of a view."""
        return packed(words)

    def view_call(
        self, op: type[Op], words: tuple[int, ...] | None, fallback: Callable[..., Any]
    ) -> Callable[..., Any]:
        """A view as a function of an array and numbers."""
        record = packed(words)
        return fallback if record is None else view_call(op.name, record, fallback)

    def graph_kernel(
        self, name: str, graph: Graph, arguments: list[Node], weak: set[Node]
    ) -> kernels.ElementwiseKernel | None:
        """One kernel for a graph of elementwise ops. `weak`: the nodes that are Python numbers."""
        return kernels.of_graph(name, graph, arguments, weak)

    def gradient(
        self, compute: Any, n_saved: int, numbers: tuple[int, ...], outputs: list[tuple[int, int, bool]]
    ) -> NativeGradient | None:
        """What the native walk needs of a gradient; None where it has too many operands for that."""
        if 1 + n_saved + len(numbers) > MAX_INPUTS or len(outputs) > MAX_RESULTS:
            return None
        return NativeGradient(compute, n_saved, numbers, outputs)

    def walker(
        self,
        classes: dict[str, type],
        leaf: type[Op],
        sum_to: Callable[..., Any],
        sum_apart: Callable[..., Any],
        is_timed: bool = False,
    ) -> Walker:
        """The inner loop of backward; `sum_to(array, type)` undoes broadcasting, `sum_apart(a, b)` adds any layouts."""
        add = []
        for d in (float32, float64):
            t = TensorType((1,), d)
            kernel = kernels.of_op(REGISTRY["add"], (t, t), {})
            if kernel is None:
                raise RuntimeError("the kernel of add cannot be written")
            add.append(kernel)
        return Walker(classes, leaf, sum_to, sum_apart, add, is_timed)

    def rows(self) -> RowCode:
        """How rows of arrays are gathered and added to."""
        if self._rows is None:
            self._rows = load_rows()
        return self._rows

    def stats(self) -> dict[str, Any]:
        """What was compiled and loaded, and how memory is used."""
        m = machine()
        return {
            "cpu": m.processor.cpu,
            "kernels_compiled": m.compiled,
            "kernels_loaded": m.loaded,
            "compile_seconds": m.compile_seconds,
            "memory": self.memory.stats(),
            "threads": threads.install().stats(),
        }

    def _test_itself(self) -> None:
        """A kernel against NumPy: a platform on which they disagree is not used. It will be needed anyway."""
        x = np.linspace(-2.0, 2.0, 13, dtype=np.float32)
        made = kernels.of_op(REGISTRY["mul"], (TensorType(x.shape, float32), TensorType(x.shape, float32)), {})
        if made is None:
            raise RuntimeError("the kernel of mul cannot be written")
        other = x[::-1].copy()  # side by side, as most will be
        got = made.callable(_declined)(x, other)
        if not np.allclose(got, x * other, rtol=1e-6, atol=0):
            raise RuntimeError(f"the kernel of mul computed {got}")


def _declined(*arrays: Any) -> Any:
    raise RuntimeError("a kernel declined its own self-test")
