"""PlanProgram: values and nodes in order, as flat lists; what is fused, laid out in memory and emitted later.

A value is a type and a layout: its root, the value whose memory it is in (itself, unless it is a view), and strides
and offset there. Values are written once, except buffers: gradients that are put together from parts. Roots that are
computed here are row-major: an elementwise result in another order (core/strides.py) is a view of a root whose
dimensions are those of the result, as they follow one another in memory.

A node is a tuple (kind, payload, inputs, results, step, may fail): the payload is an Expression or a Bound, the step is
the traced op that is named when it fails. Inputs are codes: a value from 0 on, NUMBER + which number of the call,
CONSTANT + which number that is known now, or NONE.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Sequence
from typing import Any

from ..backends.llvm.plans.expressions import Expression
from ..backends.llvm.routines.routine import Bound, is_spread
from ..core.cache import Cache
from ..core.layout import is_contiguous
from ..core.strides import Order, kept_order, ordered_strides
from ..core.trace_tree import NONE, NUMBER
from ..core.types import TensorType, count
from .layout import Starts, is_matrix, row_major
from .lowering import LoweredOp
from .request import Unplannable

CONSTANT = NUMBER << 1
# Kinds of nodes. UPDATE: an elementwise node whose result is written over its first input, a part of a buffer.
ELEMENTWISE, UPDATE, ROUTINE, ZERO, COPY = range(5)

_ORDERS: Cache[Any, Order | None] = Cache("orders of results in plans", 8_000)
_READABLE: Cache[tuple[TensorType, tuple[int, ...], str], bool] = Cache("layouts that routines read", 8_000)

Node = tuple[int, Any, tuple[int, ...], tuple[int, ...], int, bool]
RootLayout = tuple[tuple[int, ...], int, Starts]  # of a value in its root: strides, offset, starts, in bytes


class PlanProgram:
    """Grows by `elementwise`, `apply`, ...: each returns the values that it makes."""

    def __init__(self) -> None:
        self.types: list[TensorType] = []
        self.roots: list[int] = []
        self.places: dict[int, RootLayout] = {}  # of values that do not simply fill their root, row-major
        self.nodes: list[Node] = []
        self.inputs: dict[int, int] = {}  # the value of each ref that comes from outside
        self.buffers: set[int] = set()
        self.zeroed: set[int] = set()  # buffers that start as zeros
        self.shown: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}  # outputs seen in another shape and strides
        self.reordered: dict[int, int] = {}  # what a copy into another shape was made of
        self.constants: dict[tuple[bytes, str], int] = {}
        self.start_steps: dict[Starts, int] = {}  # the step that a start out of range is blamed on

    # ---- values

    def new(self, t: TensorType) -> int:
        """A value of its own, whose elements lie in order."""
        value = len(self.types)
        self.types.append(t)
        self.roots.append(value)
        return value

    def input(self, ref: int, t: TensorType, strides: tuple[int, ...] | None) -> int:
        """A value from outside."""
        value = self.inputs.get(ref)
        if value is None:
            value = self.inputs[ref] = self.new(t)
            if strides is not None:
                self.places[value] = (strides, 0, ())
        return value

    def buffer(self, t: TensorType) -> int:
        value = self.new(t)
        self.buffers.add(value)
        return value

    def view(self, source: int, t: TensorType, strides: tuple[int, ...], offset: int = 0, starts: Starts = ()) -> int:
        """The memory of `source` seen otherwise."""
        root = self.roots[source]
        if source in self.places:
            _, before, starts_before = self.places[source]
            offset, starts = offset + before, starts_before + starts
        for known in (source, root):
            if t.shape == self.types[known].shape and (strides, offset, starts) == self.place(known):
                return known
        value = len(self.types)
        self.types.append(t)
        self.roots.append(root)
        self.places[value] = (strides, offset, starts)
        return value

    def become_root(self, view: int) -> None:
        """What was a view is computed by itself."""
        self.roots[view] = view
        del self.places[view]

    def hand_out(self, value: int, taken: Container[int]) -> int:
        """The root that is handed out for a value: its own, unless that is taken, or a copy.

        What is all of its root, permuted or expanded, is handed out like that; a part is copied in order.
        """
        root = self.roots[value]
        is_view = root != value
        t, (strides, offset, starts) = self.types[value], self.place(value)
        moving = [size for size, stride in zip(t.shape, strides, strict=True) if stride]
        is_part = offset or starts or 0 in t.shape or count(moving) != count(self.types[root].shape)
        if (is_view and is_part) or (root in taken and root in self.places):
            return self.copy(value)
        if root in taken:
            root = self.copy(root)
        if is_view:
            self.shown[root] = (t.shape, strides)
        return root

    def place(self, value: int) -> RootLayout:
        """Strides, offset and starts."""
        return self.places.get(value) or (row_major(self.types[value]), 0, ())

    def strides(self, value: int) -> tuple[int, ...]:
        place = self.places.get(value)
        return row_major(self.types[value]) if place is None else place[0]

    def in_order(self, value: int) -> bool:
        place = self.places.get(value)
        return place is None or is_contiguous(self.types[value], place[0])

    def constant(self, number: Any) -> int:
        """The code of a number that is known now."""
        kind = type(number)
        packed = struct.pack("<d" if kind is float else "<q", number)
        return CONSTANT + self.constants.setdefault((packed, kind.__name__), len(self.constants))

    # ---- nodes

    def elementwise(self, expression: Expression, inputs: tuple[int, ...], t: TensorType, step: int = -1) -> int:
        return self.ordered(expression, inputs, t, step, self.order(t, inputs))

    def ordered(
        self,
        expression: Expression,
        inputs: tuple[int, ...],
        t: TensorType,
        step: int,
        order: Order | None,
        may_fail: bool = False,
    ) -> int:
        """The same, where the order in which the result lies is known."""
        if order is not None:
            lies = TensorType(tuple([t.shape[d] for d in order]), t.dtype)
            inputs = tuple([self._permuted(code, order) for code in inputs])
            made = self.ordered(expression, inputs, lies, step, None, may_fail)
            return self.view(made, t, ordered_strides(t.shape, t.dtype.itemsize, order))
        result = len(self.types)
        self.types.append(t)
        self.roots.append(result)
        self.nodes.append((ELEMENTWISE, expression, inputs, (result,), step, may_fail))
        return result

    def order(self, t: TensorType, inputs: Sequence[int]) -> Order | None:
        """In which an elementwise result of these inputs lies, as in eager mode; None: row-major."""
        if self.places.keys().isdisjoint(inputs):
            return None
        operands = tuple([(self.types[code].shape, self.strides(code)) for code in inputs if 0 <= code < NUMBER])
        key = (t.shape, operands)
        if key not in _ORDERS:
            _ORDERS.put(key, kept_order(t.shape, operands))
        return _ORDERS[key]

    def _permuted(self, code: int, order: Order) -> int:
        """An input with its dimensions in that order; those that it lacks have size 1."""
        if not 0 <= code < NUMBER or not self.types[code].shape:
            return code
        t, strides = self.types[code], self.strides(code)
        n_more = len(order) - len(t.shape)
        shape, strides = (1,) * n_more + t.shape, (0,) * n_more + strides
        seen = TensorType(tuple([shape[d] for d in order]), t.dtype)
        return self.view(code, seen, tuple([strides[d] for d in order]))

    def write(self, kind: int, expression: Expression, inputs: tuple[int, ...], region: int) -> None:
        """Compute a part of a buffer."""
        self.nodes.append((kind, expression, inputs, (region,), -1, False))

    def apply(self, lowered: LoweredOp, inputs: tuple[int, ...], step: int) -> tuple[int, ...]:
        """Run an op: one value for each result."""
        _, expression, _, results, may_fail, _ = lowered
        if expression is None:
            return self._routine(lowered, inputs, step)
        if NONE in inputs:  # a place that nobody reads
            nothing = self.constant(False)
            inputs = tuple([nothing if code == NONE else code for code in inputs])
        return (self.ordered(expression, inputs, results[0], step, self.order(results[0], inputs), may_fail),)

    def _routine(self, lowered: LoweredOp, inputs: tuple[int, ...], step: int) -> tuple[int, ...]:
        bound: Bound = lowered.bound  # type: ignore[assignment] # as it has no expression
        if bound.in_parts and inputs[0] in self.places:
            t = self.types[inputs[0]]
            if is_spread(t.shape, self.strides(inputs[0]), t.dtype.itemsize):
                raise Unplannable(f"{lowered.name} takes what was expanded part by part")
        if not self.places.keys().isdisjoint(inputs):
            inputs = tuple(map(self.readable, inputs, bound.reads))
        if len(lowered.results) == 1:
            result = len(self.types)
            self.types.append(lowered.results[0])
            self.roots.append(result)
            results: tuple[int, ...] = (result,)
        else:
            results = tuple(map(self.new, lowered.results))
        if bound.zeroed:
            for result in results:
                self.nodes.append((ZERO, None, (), (result,), -1, False))
        self.nodes.append((ROUTINE, bound, inputs, results, step, lowered.may_fail))
        if lowered.name == "reshape":
            self.reordered[results[0]] = inputs[0]
        return results

    def readable(self, code: int, kind: str) -> int:
        """An input as a routine can read it: itself or a copy in order, as in eager mode."""
        if code not in self.places or kind not in "cm":
            return code
        key = (self.types[code], self.places[code][0], kind)
        fits = _READABLE.get(key)
        if fits is None:
            fits = _READABLE.put(key, is_contiguous(*key[:2]) or (kind == "m" and is_matrix(*key[:2])))
        return code if fits else self.copy(code)

    def zeros(self, t: TensorType) -> int:
        result = self.new(t)
        self.nodes.append((ZERO, None, (), (result,), -1, False))
        return result

    def copy(self, source: int) -> int:
        """A copy whose elements lie in order."""
        result = self.new(self.types[source])
        self.nodes.append((COPY, None, (source,), (result,), -1, False))
        return result
