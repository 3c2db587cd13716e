"""What a kind does to the rows of n calls, as a trace: ops on types whose first dimension is n.

The kind's function runs once, on symbols, inside a vmap of n samples; the ops that vmap makes of it, on all samples'
values at once, are traced instead of being run. Numbers among the inputs stay open: a function that looks at one
(compares it, computes with it) cannot be traced, since it may do something else for another number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ..core.cache import Cache
from ..core.context import CONTEXT, ExecutionContext, switch
from ..core.interrupts import certainly
from ..core.layout import exact_strides, order_of, view_of
from ..core.op import Op, Signature
from ..core.tensor import Tensor, symbol
from ..core.trace_tree import NONE, NUMBER, LeafKind, TraceOp, ViewLayout
from ..core.types import TensorType
from ..dispatch.dispatcher import apply, as_input
from ..func.levels import Level
from ..random import default_generator
from ..scheduling.request import Unplannable
from .kinds import CallKind

MOST_STEPS = 1_000

# Gradients are found by the signature of a step, so equal steps share one.
_SIGNATURES: Cache[Any, Signature] = Cache("shape rules of rows", 4_000)


class _Open:
    """A number that is not known yet, as the function sees it. Whatever tells its value ends the trace."""

    position: int

    def _refuse(self, *others: Any) -> NoReturn:
        raise Unplannable("a number among the inputs is looked at")

    for _name in (
        *("eq", "ne", "lt", "le", "gt", "ge", "bool", "int", "index", "float", "hash", "str", "repr", "format"),
        *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod"),
        *("pow", "rpow", "neg", "pos", "abs", "round", "trunc", "floor", "ceil", "divmod", "rdivmod"),
        *("and", "rand", "or", "ror", "xor", "rxor", "invert", "lshift", "rlshift", "rshift", "rrshift"),
    ):
        locals()[f"__{_name}__"] = _refuse
    del _name


class _OpenFloat(_Open, float):
    pass


class _OpenInt(_Open, int):
    pass


class _Rows(Level):
    """A vmap that hands open numbers on to ops as plain ones, by whose values the tracer knows them."""

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return super().apply(op, tuple([_closed(x) for x in inputs]), attrs)

    def loop(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], found: list[Any], type_: Any) -> Any:
        raise Unplannable(f"{op.name} runs sample by sample")

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> NoReturn:
        raise Unplannable(f"{op_name} writes in place")

    def run_function(self, function: Any, ctx: Any, args: Any, separate: bool, grad: bool) -> NoReturn:
        raise Unplannable(f"{function.__name__} has a gradient of its own")


def _closed(x: Any) -> Any:
    if isinstance(x, _OpenFloat):
        return float.__add__(x, 0.0)
    return int.__add__(x, 0) if isinstance(x, _OpenInt) else x


class RowTracer:
    """An interceptor: every op becomes a step of the trace, nothing runs.

    A ref says where an operand comes from: a value id, -1 - the index of a leaf, or NUMBER + the index of a number.
    """

    def __init__(self) -> None:
        self.steps: list[TraceOp] = []
        self.leaves: list[LeafKind] = []
        self.tensors: dict[int, Tensor] = {}  # leaves that are tensors from outside
        self.numbers: list[Any] = []  # the open ones, then those that the function has of its own
        self._open: dict[Any, int] = {}
        self._alive: list[Tensor] = []
        self._refs: dict[int, int] = {}  # by id of a tensor
        self._strides: dict[int, tuple[int, ...] | None] = {}  # by ref
        self._tracked: dict[int, bool] = {}
        self._n_values = 0

    def leaf(self, type_: TensorType, tracked: bool) -> Tensor:
        """A new leaf, as a symbol."""
        return self._known(symbol(type_, None, self), self._add_leaf(LeafKind(type_, None, tracked)))

    def open_number(self, number: Any) -> None:
        """The next number that is not known yet: ops that are given this value mean it."""
        self._open[type(number), number] = len(self.numbers)
        self.numbers.append(number)

    def ref(self, t: Tensor) -> int:
        found = self._refs.get(id(t))
        if found is None:
            array = t._values()
            if isinstance(t._source, RowTracer) or array.dtype is not t._type.dtype.numpy or not array.flags.aligned:
                raise Unplannable("a tensor whose memory native code does not read")
            found = self._add_leaf(LeafKind(t._type, exact_strides(array), t.requires_grad))
            self.tensors[-1 - found] = t
            self._known(t, found)
        return found

    def is_tracked(self, ref: int) -> bool:
        return self._tracked[ref]

    def _add_leaf(self, kind: LeafKind) -> int:
        self.leaves.append(kind)
        ref = -len(self.leaves)
        self._strides[ref], self._tracked[ref] = kind.strides, kind.tracked
        return ref

    def _known(self, t: Tensor, ref: int) -> Tensor:
        self._refs[id(t)] = ref
        self._alive.append(t)  # and so its id
        return t

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        inputs = tuple(map(as_input, inputs))
        if op.family == "random":
            raise Unplannable("a random draw")
        if not any(isinstance(x, Tensor) for x in inputs):
            return self._run(op, inputs, attrs)
        if len(self.steps) >= MOST_STEPS:
            raise Unplannable("too many steps")
        kinds = tuple(x._type if isinstance(x, Tensor) else type(x) for x in inputs)
        signature = _signature(op, kinds, attrs)
        n_leaves = len(self.leaves)
        refs, needs = self._refs_of(op, inputs)
        view, baked = self._view(op, attrs, inputs, refs) if op.aliases_input else (None, None)
        if baked is not None:
            refs = [NONE if ref >= NUMBER else ref for ref in refs]
        step = TraceOp(
            op, attrs, tuple(refs), kinds, signature, self._n_values, needs, CONTEXT.get().grad,
            tuple(self.leaves[n_leaves:]), view, baked, None, None, self._order(op, signature, refs, kinds),
        )  # fmt: skip
        self.steps.append(step)
        several = type(signature.type) is tuple
        made = [self._result(step, i, t) for i, t in enumerate(signature.type if several else (signature.type,))]
        self._n_values += len(made)
        return tuple(made) if several else made[0]

    def _refs_of(self, op: type[Op], inputs: tuple[Any, ...]) -> tuple[list[int], int]:
        """Where inputs come from, and which of them are tracked, as bits."""
        refs: list[int] = []
        needs = 0
        for i, x in enumerate(inputs):
            if isinstance(x, Tensor):
                refs.append(self.ref(x))
                needs |= self._tracked[refs[-1]] << i
            else:
                refs.append(NONE if x is None else NUMBER + self._number(x, op.name == "slice"))
        return refs, needs

    def _order(self, op: type[Op], signature: Signature, refs: list[int], kinds: tuple[Any, ...]) -> Any:
        """The order of dimensions in which an elementwise result is laid out; None: row-major."""
        if op.aliases_input or not op.keeps_order or not isinstance(signature.type, TensorType):
            return None
        tensors = [
            (kind, self._strides[ref]) for ref, kind in zip(refs, kinds, strict=True) if isinstance(kind, TensorType)
        ]
        return order_of(signature.type, tensors)

    def _run(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """An op of numbers only makes a tensor that is the same in all calls."""
        if any((type(x), x) in self._open for x in inputs):
            raise Unplannable("a tensor is made of a number among the inputs")
        with switch(interceptor=None, recording=None):
            return apply(op, inputs, attrs)

    def _result(self, step: TraceOp, i: int, t: TensorType) -> Tensor:
        value_id = step.place + i
        self._strides[value_id] = step.strides
        self._tracked[value_id] = step.tracked and t.dtype.is_floating_point
        return self._known(symbol(t, None, self), value_id)

    def _number(self, x: Any, is_start: bool) -> int:
        found = self._open.get((type(x), x))
        if found is None:
            found = len(self.numbers)
            if not is_start:  # where a slice begins is part of the step
                self.numbers.append(x)
        return found

    def _view(
        self, op: type[Op], attrs: dict[str, Any], inputs: tuple[Any, ...], refs: list[int]
    ) -> tuple[ViewLayout | None, tuple[Any, ...] | None]:
        """The layout of a view, and the numbers that are part of the step because the layout follows from them."""
        if op.name not in ("slice", "permute", "reshape", "expand", "detach", "alias"):
            raise Unplannable(f"{op.name} is a view that plans do not know")
        numbers = [x for x in inputs if isinstance(x, int | float)]
        is_open = [(type(x), x) in self._open for x in numbers]
        source, strides = inputs[0]._type, self._strides[refs[0]]
        if not any(is_open):
            view = view_of(op, attrs, source, strides, numbers, None)
            return view, tuple(numbers) if numbers and (view is None or not view.starts) else None
        view = view_of(op, attrs, source, strides, numbers, 0)
        if view is None or not view.starts or not all(is_open):
            raise Unplannable("a slice that begins where some numbers among the inputs say")
        starts = tuple([(ref - NUMBER, *entry[1:]) for ref, entry in zip(refs[1:], view.starts, strict=True)])
        return view._replace(starts=starts), None

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> NoReturn:
        raise Unplannable(f"{op_name} writes in place")

    def read(self, t: Tensor) -> NoReturn:
        raise Unplannable("a value is read")


def _signature(op: type[Op], kinds: tuple[Any, ...], attrs: dict[str, Any]) -> Signature:
    key = (op, kinds, *[(name, repr(value)) for name, value in attrs.items()])
    found = _SIGNATURES.get(key)
    return _SIGNATURES.put(key, op.signature(kinds, attrs)) if found is None else found


def _put_back(mode: ExecutionContext, random_state: Any) -> None:
    CONTEXT.set(mode)
    default_generator.set_state(random_state)


class KindTrace:
    """A kind's function at n calls. Inputs come first among the leaves, in order; numbers that calls share do not."""

    def __init__(self, kind: CallKind, inputs: Sequence[tuple[bool, Any]], n: int, variant: int) -> None:
        """`inputs`: for each whether it is shared, and the type of its rows or of what is shared; for a number that is
        shared float, int or a bool. `variant`: open numbers have other values in another one."""
        self._tracer = tracer = RowTracer()
        self.of_inputs: list[int | None] = []  # the leaf of each input that is a tensor
        self.n_open = 0
        wants_grad = any(kind.tracked)
        before, random_state = CONTEXT.get(), default_generator.get_state()
        outside = ExecutionContext(wants_grad, before.inference, tracer, before.quiet)
        try:
            CONTEXT.set(outside)
            level = _Rows(n, "different")
            arguments = []
            for (shared, what), i in zip(inputs, kind.inputs, strict=True):
                argument = self._argument(what, i.tracked and wants_grad, variant)
                arguments.append(argument if shared else level.wrap(argument))
            CONTEXT.set(ExecutionContext(wants_grad, before.inference, level, before.quiet))
            results = kind.fn(*arguments)
            CONTEXT.set(outside)
            self.results = [tracer.ref(level.physical(y)) for y in results]
            level.running = False
        finally:
            certainly(_put_back, before, random_state)
        self.steps, self.leaves, self.numbers = tracer.steps, tracer.leaves, tracer.numbers
        self.tensors = tracer.tensors  # leaves that are captured
        self.is_tracked = tracer.is_tracked

    def _argument(self, what: Any, tracked: bool, variant: int) -> Any:
        if isinstance(what, TensorType):
            self.of_inputs.append(len(self._tracer.leaves))
            return self._tracer.leaf(what, tracked)
        self.of_inputs.append(None)
        if isinstance(what, bool):
            return what
        # An op that meets this very value means the open number, so it must be one that no code has of its own.
        k = self.n_open
        self.n_open += 1
        number: Any = 0.6180339887498949 + 0.1 * k + 0.0137 * variant**2
        if what is int:
            number = 1_000_003 + 104_729 * k + 31 * variant**2
        self._tracer.open_number(number)
        return _OpenFloat(number) if what is float else _OpenInt(number)
