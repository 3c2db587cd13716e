"""What happens inside one sample: its ops and cells become calls of the run.

A `SampleTracer` is the interceptor of everything its function does. Views of tensors from outside and ops without
tensors run at once; so does whatever can only run eagerly, on values that are waited for.
"""

from __future__ import annotations

import weakref
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NoReturn

from ..core.cache import Cache
from ..core.context import CONTEXT, ExecutionContext
from ..core.graph import Leaf, Node
from ..core.op import Elementwise, Op
from ..core.tensor import Tensor, TensorLike
from ..core.types import DEFAULT_DTYPE_LISTENERS, TensorType
from ..dispatch.dispatcher import apply, as_input
from ..dispatch.inplace import check_fits
from ..errors import AutogradError
from ..nn.module import show_cells
from .call_cache import learn_op, recorder
from .cells import find
from .greenlets import GreenletHub
from .kinds import TAKE_NUMBERS, CallKind, Input

if TYPE_CHECKING:
    from .run import BatchExecutor

_KINDS: Cache[Any, CallKind] = Cache("kinds of ops in batches", 4_000)
DEFAULT_DTYPE_LISTENERS.append(_KINDS.clear)
_NUMBERS = (float, int, bool)
_ALONE = 2  # references to a storage that no view shares: its tensor's, and that of the one who counts


class SampleTracer:
    """The interceptor of one sample of a run."""

    __slots__ = ("_made", "_modes", "_viewed", "hub", "number", "run")

    def __init__(self, run: BatchExecutor, number: int, hub: GreenletHub) -> None:
        self.run = run
        self.number = number
        self.hub = hub
        if not _PREPARED:
            _prepare()
        self._modes: tuple[Any, Any] = (None, None)  # the last one that ops were to run at once in, without this sample
        self._made: dict[int, weakref.ref[Tensor]] = {}  # tensors that the sample filled (ex.zeros), by their ids
        self._viewed: set[int] = set()  # values that share memory with others, as views do

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        run = self.run
        for x in inputs:
            if isinstance(x, TensorLike):
                return x._apply(op, inputs, attrs)
        for x in inputs:
            if isinstance(x, Tensor):
                if x._source is run:
                    break
            elif x is not None and type(x) not in _NUMBERS:
                return self.apply(op, tuple(map(as_input, inputs)), attrs)
        else:  # nothing of the run goes in
            if op.aliases_input or not any(isinstance(x, Tensor) for x in inputs):
                return self._at_once(op, inputs, attrs)
        grad = CONTEXT.get().grad
        kind, given = _kind_of(op, inputs, attrs, grad)
        made = run.call(kind, given, self.number)
        if _PREPARED[0]:
            learn_op(op, inputs, attrs, grad, kind, kind.single, _takes_numbers(op))
        if op.aliases_input:
            self._viewed.update(x._value_id for x in (inputs[0], *made) if x._source is run)
        return made[0] if kind.single else tuple(made)

    def _at_once(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        mode = CONTEXT.get()
        inside, outside = self._modes
        if inside is not mode:
            outside = ExecutionContext(mode.grad, mode.inference, None, mode.quiet)
            self._modes = (mode, outside)
        try:
            CONTEXT.set(outside)
            return apply(op, inputs, attrs)
        finally:
            CONTEXT.set(mode)

    def call_cell(self, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record one call of a cell. NotImplemented: it is none, its body is to run."""
        cell = find(callable_)
        if cell is None:
            return NotImplemented
        grad = CONTEXT.get().grad
        call = cell.call(args, kwargs, grad)
        if call is None:
            return NotImplemented
        made = self.run.call(call.kind, call.inputs, self.number)
        if _PREPARED[0]:
            cell.learn(call, args, kwargs, grad)
        return call.rebuild(made)

    def made(self, t: Tensor) -> None:
        """A tensor that the sample has filled with something, which is its own to write to."""
        self._made[id(t)] = weakref.ref(t)

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        """In-place writes to the sample's own tensors: they mean other values from now on."""
        run = self.run
        if target._source is not run:
            own = self._made.pop(id(target), None)
            if own is None or own() is not target or target.requires_grad or getrefcount(target._memory) > _ALONE:
                self._refuse_write(op_name)
            run.forget(target)
        elif target._value_id in self._viewed:
            raise AutogradError(
                f"{op_name}: inside ex.batch, this tensor is a view of another, or has one, and a write would have to "
                "change both; use the out-of-place form, or build the values in a list and ex.stack or ex.cat them"
            )
        check_fits(target, value, op_name)
        if value._type.dtype is not target._type.dtype:
            value = value.to(target._type.dtype)
        if value._source is not run:  # a tensor from outside: it is read, not taken over
            value = value.clone()
        target._data, target._memory = value._data, value._memory
        target._history, target._source = value._history, value._source
        if value._source is run:
            target._value_id = value._value_id
        return target

    def _refuse_write(self, op_name: str) -> NoReturn:
        raise AutogradError(
            f"{op_name}: inside ex.batch, a sample writes to a tensor that it has not made, or that others share "
            "memory with (a buffer, a parameter, batch statistics, a view); use the out-of-place form, collect values "
            "in a list and ex.stack them, or update the tensor after ex.batch has returned"
        )

    def heard(self, function: Any, *args: Any) -> NoReturn:
        """`backward()` and `grad()` come here."""
        raise AutogradError(
            f"{function.__name__}: inside ex.batch a sample cannot go backward, because samples run together; return "
            "the loss, and call backward() on the sum of what ex.batch returns"
        )


_PREPARED: list[bool] = []  # whether there is native code, once it is known


def _prepare() -> None:
    """Where there is native code, that is shown every call first."""
    found = recorder()
    show_cells(call_cell if found is None else found.call_cell)
    _PREPARED[:] = [found is not None]


def call_cell(callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Show a call of a cell to the sample that makes it. NotImplemented: there is none, the cell's body is to run."""
    sample = CONTEXT.get().interceptor
    return sample.call_cell(callable_, args, kwargs) if type(sample) is SampleTracer else NotImplemented


class _OpKind(CallKind):
    """A kind that is one op."""

    __slots__ = ("single",)

    single: bool  # whether the op has one result


def _kind_of(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], grad: bool) -> tuple[_OpKind, list[Any]]:
    """The kind of an op on these inputs, and the inputs that are not part of it.

    A leaf that requires grad is part of it, as the weights of a cell are: calls with other weights are another kind. So
    are numbers that are no operands: they say which elements a result has.
    """
    varying = _takes_numbers(op)
    given: list[Any] = []
    types: list[Any] = []
    captured: list[Tensor] = []
    for x in inputs:
        if x is None:
            types.append(None)
        elif not isinstance(x, Tensor):
            types.append(type(x) if varying else (type(x), x))
            if varying:
                given.append(x)
        elif type(x._history) is Node and x._history.op is Leaf and grad:
            captured.append(x)
            types.append((x._type, id(x)))
        else:
            given.append(x)
            types.append((x._type, grad and type(x._history) is Node))
    key = (op, *types, *attrs.items())
    kinds: Any = _KINDS
    if captured:
        extra = captured[0]._history.need()
        if extra.kinds is None:
            extra.kinds = {}
        kinds = extra.kinds
    try:
        found = kinds.get(key)
    except TypeError:  # an attribute that cannot be hashed
        return _op_kind(op, inputs, attrs, grad), given
    if found is None:
        found = _op_kind(op, inputs, attrs, grad)
        if captured:
            kinds[key] = found
        else:
            kinds.put(key, found)
    return found, given


def _takes_numbers(op: type[Op]) -> bool:
    """Whether numbers among the inputs may differ between calls of one kind."""
    return issubclass(op, Elementwise) or op.family == "random" or op.name in TAKE_NUMBERS


def _op_kind(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], grad: bool) -> _OpKind:
    signature = op.signature(tuple(x._type if isinstance(x, Tensor) else type(x) for x in inputs), attrs)
    several = isinstance(signature.type, tuple) and not isinstance(signature.type, TensorType)
    results = signature.type if several else (signature.type,)
    fixed: list[Any] = []  # what is part of the kind; the place of an input is None
    given, captured, needs = [], [], False
    varying = _takes_numbers(op)
    for x in inputs:
        if x is None or not (varying or isinstance(x, Tensor)):
            fixed.append((x,))
            continue
        tracked = isinstance(x, Tensor) and grad and type(x._history) is Node
        needs |= tracked
        if tracked and x._history.op is Leaf:
            captured.append(x)
            fixed.append((x,))
            continue
        fixed.append(None)
        given.append(Input(x._type if isinstance(x, Tensor) else type(x), tracked))

    def run(*values: Any) -> tuple[Tensor, ...]:
        rest = iter(values)
        made = apply(op, tuple(next(rest) if one is None else one[0] for one in fixed), attrs)
        return made if several else (made,)

    which = tuple(needs and op.name != "detach" and t.dtype.is_floating_point for t in results)
    random = op.family == "random"
    of_one_type = len({i.type for i in given}) == 1 and not captured
    stacks = op.name in ("stack", "cat") and attrs["dim"] == 0 and of_one_type and given[0].type.numel() > 0
    made = _OpKind(op.name, run, tuple(given), results, which, tuple(captured), None, random, cell=False, stacks=stacks)
    made.single = not several
    return made
