"""OpCall: one call of an op, with its inputs resolved against a trace: for each a reference (value, leaf or number) and
its type, and which leaves are new.

Edges of the trace tree are compared with it, and a new one is made of it. Thrown away if the op runs eagerly.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import Any

import numpy as np

from ..core.context import ExecutionContext
from ..core.graph import Node
from ..core.layout import exact_strides, order_of
from ..core.op import Op
from ..core.strides import Order
from ..core.tensor import LazySource, Tensor
from ..core.trace_tree import NONE, NUMBER, LeafKind, TraceOp
from ..core.types import TensorType
from ..dispatch.dispatcher import as_input
from .trace import Trace


def grad_key(mode: ExecutionContext) -> bool | None:
    """Whether gradients are traced; None if they are not in inference mode, which results remember."""
    return mode.grad or (None if mode.inference else False)


class OpCall:
    """The op, its attributes and inputs, and what these are to one trace."""

    __slots__ = (
        *("attrs", "cut", "fresh", "grad", "inputs", "kinds", "mode", "needs", "new_leaves", "numbers", "op", "refs"),
        "trace",
    )

    def __init__(
        self, trace: Trace, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: ExecutionContext
    ) -> None:
        self.trace, self.op, self.inputs, self.attrs, self.mode = trace, op, inputs, attrs, mode
        self.grad = grad_key(mode)
        self.refs: tuple[int, ...] = ()
        self.kinds: tuple[Any, ...] = ()  # for each input a TensorType, float, int, bool or NoneType
        self.numbers: list[Any] = []
        self.fresh: list[Tensor] = []  # leaves that are new
        self.new_leaves: tuple[LeafKind, ...] = ()
        self.needs = 0  # bit i: input i is tracked
        self.cut: Any = None  # why gradients ended before an input, if they did

    @classmethod
    def resolved(
        cls,
        trace: Trace,
        source: LazySource,
        op: type[Op],
        inputs: tuple[Any, ...],
        attrs: dict[str, Any],
        mode: ExecutionContext,
    ) -> OpCall | None:
        """None if an input cannot be on a trace. `source` is who gives the trace's tensors their values."""
        call = cls(trace, op, inputs, attrs, mode)
        refs: list[int] = []
        kinds: list[Any] = []
        for i, x in enumerate(inputs):
            if isinstance(x, Tensor):
                ref = call._ref_of(x, source)
                if ref is None:
                    return None
                refs.append(ref)
                kinds.append(x._type)
                call.needs |= (type(x._history) is Node) << i
                call.cut = call.cut or x._grad_barrier
            elif x is None:
                refs.append(NONE)
                kinds.append(NoneType)
            elif type(x) in (float, int, bool):
                refs.append(NUMBER + len(trace.numbers) + len(call.numbers))
                kinds.append(type(x))
                call.numbers.append(x)
            else:
                return cls.resolved(trace, source, op, tuple(map(as_input, inputs)), attrs, mode)
        call.refs, call.kinds = tuple(refs), tuple(kinds)
        call.new_leaves = tuple([_leaf_kind(x) for x in call.fresh])
        return call

    def _ref_of(self, x: Tensor, source: LazySource) -> int | None:
        """A value of the trace, a leaf that it knows, or a new one; None if it cannot be one."""
        trace = self.trace
        if x._source is source:
            return x._value_id
        if isinstance(x._source, LazySource):
            x._source.release(x, "its result went on in another recording")
        if x._alias is not None:
            x._catch_up()
        if x._source is trace.token:
            place = x._value_id  # another thread may mark the same tensor at this moment
            k = -1 - place
            if 0 <= k < len(trace.arrays) and trace.arrays[k] is x._data and trace.nodes[k] is x._history:
                return place
        for k, fresh in enumerate(self.fresh):
            if fresh is x:
                return -1 - len(trace.leaves) - k
        array = x._data
        if type(array) is not np.ndarray or not array.flags.aligned or array.dtype is not x._type.dtype.numpy:
            return None
        self.fresh.append(x)
        return -len(trace.leaves) - len(self.fresh)

    def fits(self, step: TraceOp) -> bool:
        """Whether an edge of the trace tree is the same op on the same inputs."""
        if step.op is not self.op or step.grad is not self.grad or step.kinds != self.kinds:
            return False
        if step.attrs != self.attrs or step.new_leaves != self.new_leaves or step.needs != self.needs:
            return False
        if step.baked is None:
            return step.refs == self.refs
        return step.baked == tuple(self.numbers) and step.refs == self.baked_refs()

    def baked_refs(self) -> tuple[int, ...]:
        """The references where numbers are guards: they are compared by themselves."""
        return tuple([NONE if ref >= NUMBER else ref for ref in self.refs])

    def has_other_starts(self, edges: Iterable[TraceOp]) -> bool:
        """Whether one of these is the same slice, with another start."""
        refs = self.baked_refs()
        return any(
            s.op is self.op
            and s.refs == refs
            and s.kinds == self.kinds
            and s.attrs == self.attrs
            and s.grad is self.grad
            for s in edges
        )

    def strides(self, ref: int) -> tuple[int, ...] | None:
        """Of an input, in bytes; None if it is row-major."""
        if ref >= 0:
            return self.trace.makers[ref].strides
        k, arrays = -1 - ref, self.trace.arrays
        return exact_strides(arrays[k] if k < len(arrays) else self.fresh[k - len(arrays)]._data)

    def order(self, type_: TensorType) -> Order | None:
        """Of the dimensions of a result that keeps that of its inputs."""
        tensors = [(ref, kind) for ref, kind in zip(self.refs, self.kinds, strict=True) if isinstance(kind, TensorType)]
        return order_of(type_, [(kind, self.strides(ref)) for ref, kind in tensors])


def _leaf_kind(x: Tensor) -> LeafKind:
    return LeafKind(x._type, exact_strides(x._data), type(x._history) is Node)
