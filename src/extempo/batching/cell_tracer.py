"""The body of a cell, run once on symbols: what it computes, as a list of ops that can be run on anything.

A `CellTracer` is the interceptor of that one run. Arguments are symbols (a type, no values) and numbers that are
followed; tensors from elsewhere are captured as they are. What a cell must not do, because it would happen once instead
of at each call, is *refused* with the line that does it: reading values, writing to what it has not made, setting
attributes. What it may do but cannot be one call (random draws, gradients of its own) is *declined*: its ops then
become calls of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

from ..core.context import CONTEXT
from ..core.effect_hooks import EffectHooks, reports_to
from ..core.graph import Constant, Leaf, Node, describe_where
from ..core.op import Elementwise, Op
from ..core.source_location import user_line
from ..core.tensor import Tensor, symbol
from ..core.types import TensorType
from ..dispatch.dispatcher import NO_ATTRS, apply, as_input
from ..errors import DtypeError, GraphError, UnsupportedError
from ..nn.lazy_layers import _Lazy
from ..nn.module import Module
from ..nn.norm_layers import _NormBase
from ..ops.view import Detach
from ..random import Generator
from ..tracing.static.sym_numbers import FOLLOWED, asked, follow, plain
from .kinds import Input, takes_numbers
from .purity_guards import PurityGuards
from .read_guards import alike


class Declined(Exception):
    """The call is not to be one call: its ops are calls of their own."""

    def __init__(self, why: str, where: Any = None) -> None:
        """where: what in the body it is about (`automatic_cells.Culprit`)."""
        super().__init__(why)
        self.where = where


class CellOp(NamedTuple):
    """One op: what it reads and the first of its results are value ids, indices into a list of values."""

    op: type[Op]
    reads: list[int]
    attrs: dict[str, Any]
    first: int
    n_results: int
    numbers: dict[int, Any]  # which of the reads are numbers, and the dtype for those that come as tensors


class Body:
    """What a cell computes: ops on a list of values, which holds the inputs, then constants, then results in order."""

    def __init__(self, steps: list[CellOp], fixed: list[Any], results: list[int]) -> None:
        self._steps = steps
        self._fixed = fixed
        self._results = results
        self.n_ops = len(steps)

    def __call__(self, *inputs: Any) -> tuple[Tensor, ...]:
        values: list[Any] = [*inputs, *self._fixed]
        for op, reads, attrs, _, _, numbers in self._steps:
            operands = [values[value_id] for value_id in reads]
            for i, dtype in numbers.items():
                if isinstance(operands[i], Tensor):
                    operands[i] = operands[i].to(dtype)
            made = apply(op, tuple(operands), attrs) if op is not Detach else operands[0].detach()
            if type(made) is tuple:
                values += made
            else:
                values.append(made)
        return tuple([values[value_id] for value_id in self._results])


class _CellNumbers:
    """Numbers among the inputs: who looks at one, or computes with it, makes it a part of the signature."""

    def __init__(self, trace: CellTracer) -> None:
        self._trace = trace

    def looked(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        self._trace.looked_at.update(int(x.slot) for x in args if type(x) in FOLLOWED)
        return fn(*map(plain, args))

    computed = looked


class CellTracer:
    """The interceptor of a cell's body."""

    def __init__(self, name: str, inputs: list[Input], reads: PurityGuards, grad: bool, marked: bool) -> None:
        """`marked`: the user has said that it is a cell, so a body that cannot be one is an error."""
        self.name = name
        self._marked = marked
        self.inputs = inputs
        self.steps: list[CellOp] = []
        self.looked_at: set[int] = set()  # numbers among the inputs that Python code looked at
        self.stopped: Exception | None = None  # the body may have caught it
        self.only_checks = False  # nobody asks what the body computes, so values need not follow what is written
        self._outside = reads.tensors
        self._grad = grad
        self._fixed: list[Any] = []  # captured tensors and constants; the value id of [i] is -1 - i until `finish`
        self._captured_ids: dict[int, int] = {}  # value ids of captured tensors, by id()
        self._n_values = len(inputs)
        self._nodes: list[Node] = []
        self._viewed: set[int] = set()  # values that share memory with others

    # ---- what goes in

    def argument(self, position: int, value: Any) -> Any:
        """What stands for an input in the body."""
        kind, tracked = self.inputs[position]
        if isinstance(kind, TensorType):
            return self._symbol(kind, position, tracked)
        return follow(value, position, _CellNumbers(self))

    def _symbol(self, type_: TensorType, value_id: int, tracked: bool, op: type[Op] = Leaf) -> Tensor:
        node = (Node if tracked else Constant)(op, (), NO_ATTRS, type_, (), None)
        self._nodes.append(node)
        made = symbol(type_, node, self)
        made._value_id = value_id
        return made

    def run(self, body: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The body's result. What was refused or declined is raised, even if the body has caught it."""
        before = CONTEXT.get()
        with watching:
            CONTEXT.set(before.but(interceptor=self, grad=self._grad, recording=None))
            try:
                result = body(*args, **kwargs)
            finally:
                CONTEXT.set(before)
        if self.stopped is not None:
            raise self.stopped
        return result

    def value_id_of(self, x: Any) -> int:
        """The id of an operand; negative if it is a constant or captured."""
        if type(x) in FOLLOWED:
            return int(x.slot)
        if not isinstance(x, Tensor):
            self._fixed.append(x)
            return -len(self._fixed)
        if x._source is self:
            return x._value_id
        found = self._captured_ids.get(id(x))
        if found is None:
            found = self._captured_ids[id(x)] = self._capture(x)
        return found

    def _capture(self, x: Tensor) -> int:
        if x._data is None:
            self.decline("it reads a tensor of the sample that is not an argument")
        if id(x) not in self._outside:  # detach() and .data: the tensor they are of may get other memory
            for other in self._outside.values():
                if other._data is x._data and other._type == x._type:
                    return int(self.apply(Detach, (other,), NO_ATTRS)._value_id)
        self._fixed.append(x)
        return -len(self._fixed)

    # ---- as interceptor

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if op.family == "random":
            self.decline("it draws random numbers")
        operands = self._operands(op, inputs)
        types = tuple([x._type if isinstance(x, Tensor) else type(plain(x)) for x in operands])
        result_type = op.signature(types, attrs).type
        several = not isinstance(result_type, TensorType)
        result_types = result_type if several else (result_type,)
        tracked = CONTEXT.get().grad and op is not Detach and any(_requires_grad(x) for x in operands)
        reads = [self.value_id_of(x) for x in operands]
        first = self._n_values
        self.steps.append(CellOp(op, reads, attrs, first, len(result_types), _number_dtypes(op, types, operands)))
        self._n_values += len(result_types)
        made = [
            self._symbol(t, first + i, tracked and t.dtype.is_floating_point, op) for i, t in enumerate(result_types)
        ]
        if op.aliases_input:
            self._viewed.update((reads[0], *range(first, self._n_values)))
        return tuple(made) if several else made[0]

    def _operands(self, op: type[Op], inputs: tuple[Any, ...]) -> list[Any]:
        """The inputs as tensors and numbers: detached where gradients are off inside the body, and on around it."""
        try:
            operands = [x if type(x) in FOLLOWED and takes_numbers(op) else as_input(asked(x)) for x in inputs]
        except (DtypeError, UnsupportedError) as error:
            raise type(error)(f"{op.name}: {error}") from None
        if self._grad and not CONTEXT.get().grad and op is not Detach:
            operands = [apply(Detach, (x,)) if _requires_grad(x) else x for x in operands]
        return operands

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        if target._source is not self or target._value_id < len(self.inputs):
            if target._source is not self and not self._is_outside(target):
                if self.only_checks:
                    return target
                self.decline("it writes in place into a tensor that it has made of constants")
            self.refuse(
                f"{op_name} writes to a tensor that the cell has not made",
                "use the out-of-place form and return the new tensor",
            )
        if target._value_id in self._viewed or value._type.shape != target._type.shape:
            if self.only_checks:
                return target
            self.decline("it writes in place into a view")
        if value._type.dtype is not target._type.dtype:
            value = value.to(target._type.dtype)
        if value._source is not self or value._value_id < len(self.inputs):
            value = value.clone()
        target._value_id, target._history = value._value_id, value._history
        return target

    def read(self, t: Tensor) -> NoReturn:
        self.refuse(
            "the value of a tensor is read (item(), bool(), if, numpy(), print)",
            "use ex.where(...) in place of if, or return the tensor and read it outside",
        )

    def heard(self, function: Any, *args: Any) -> NoReturn:
        self.decline(f"it calls {function.__name__}()")

    def run_function(self, function: Any, *args: Any) -> NoReturn:
        self.decline(f"it calls {function.__name__}, an autograd.Function")

    # ---- effects that are no ops

    def value_read(self, method: Callable[..., Any], t: Tensor, *args: Any, **kwargs: Any) -> Any:
        if t._data is None or self._is_outside(t):
            self.read(t)
        return method(t, *args, **kwargs)

    def drawn(self, method: Callable[..., Any], *args: Any) -> NoReturn:
        self.decline("it draws random numbers")

    def attribute_set(self, method: Callable[..., Any], module: Any, name: str, *value: Any) -> None:
        if not value or name not in vars(module) or not alike(vars(module)[name], value[0]):
            self.refuse(f"{type(module).__name__}.{name} is set", "return what is to be kept, and set it outside")

    def _is_outside(self, t: Tensor) -> bool:
        return id(t) in self._outside or type(t._history) is Node

    def refuse(self, what: str, advice: str) -> NoReturn:
        if not self._marked:
            self.decline(what)
        self.stopped = GraphError(
            f"cell {self.name}: {what}, at {describe_where(user_line())}; a cell runs once for the calls of many "
            f"samples, and must only compute its result from its arguments: {advice}, or leave ex.cell out"
        )
        raise self.stopped

    def decline(self, why: str) -> NoReturn:
        self.stopped = Declined(why)
        raise self.stopped

    # ---- the end

    def check_own(self, result_ids: list[int]) -> None:
        """Decline results that share memory with an argument, with a tensor from outside or with each other."""
        bases: dict[int, int] = {}  # what a view is of, by value id
        for step in self.steps:
            if step.op.aliases_input:
                base = bases.get(step.reads[0], step.reads[0])
                bases.update({step.first + i: base for i in range(step.n_results)})
        for value_id in result_ids:
            if bases.get(value_id, value_id) < len(self.inputs):
                self.decline("it returns an argument, or a view of one")
        viewed = [bases[value_id] for value_id in result_ids if value_id in bases]
        if len(set(viewed)) < len(viewed) or not set(viewed).isdisjoint(result_ids):
            self.decline("it returns tensors that share memory")

    def finish(self, results: list[Tensor]) -> tuple[Body, list[Tensor]]:
        """The steps that lead to the results, and the tensors that they capture."""
        if any(node.extra is not None for node in self._nodes):
            self.decline("it asks for gradients in the middle (register_hook, retain_grad)")
        result_ids = [self.value_id_of(t) for t in results]
        needed, steps = self._needed(result_ids)
        # Value ids change: constants come between inputs and results, those that nobody reads any more are left out.
        n_inputs = len(self.inputs)
        constants = [value_id for value_id in sorted(needed) if value_id < 0]
        new_ids = {i: i for i in range(n_inputs)} | {old: n_inputs + i for i, old in enumerate(constants)}
        n_values = len(new_ids)
        renumbered = []
        for step in steps:
            new_ids.update({step.first + i: n_values + i for i in range(step.n_results)})
            renumbered.append(step._replace(reads=[new_ids[value_id] for value_id in step.reads], first=n_values))
            n_values += step.n_results
        fixed = [self._fixed[-1 - value_id] for value_id in constants]
        captured = [x for x in fixed if isinstance(x, Tensor)]
        return Body(renumbered, fixed, [new_ids[value_id] for value_id in result_ids]), captured

    def _needed(self, result_ids: list[int]) -> tuple[set[int], list[CellOp]]:
        """The values that lead to the results, and the steps that make them."""
        needed = set(result_ids)
        steps = []
        for step in reversed(self.steps):
            if not needed.isdisjoint(range(step.first, step.first + step.n_results)):
                needed.update(step.reads)
                steps.append(step)
        return needed, steps[::-1]


def _requires_grad(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _number_dtypes(op: type[Op], types: tuple[Any, ...], operands: list[Any]) -> dict[int, Any]:
    """In which dtype an elementwise op computes with operands that are followed numbers, which may come as tensors."""
    followed = [i for i, x in enumerate(operands) if type(x) in FOLLOWED]
    return dict.fromkeys(followed, op._rule(types)[1]) if followed and issubclass(op, Elementwise) else {}


def decline_modules(modules: Iterable[Module]) -> None:
    """Modules whose calls do more than compute."""
    for module in modules:
        hooks = module._call_hooks
        if hooks is not None and any(vars(hooks).values()):
            raise Declined(f"{type(module).__name__} has hooks")
        if isinstance(module, _Lazy):
            raise Declined(f"{type(module).__name__} has no size yet")
        if isinstance(module, _NormBase) and module.training and module.running_mean is not None:
            raise Declined(f"{type(module).__name__} keeps statistics of batches")


def _replacements() -> Iterator[tuple[Any, str, Any]]:
    for owner, name, tell in (
        (Tensor, "item", CellTracer.value_read),
        (Tensor, "_values", CellTracer.value_read),
        (Generator, "take", CellTracer.drawn),
        (Module, "__setattr__", CellTracer.attribute_set),
        (Module, "__delattr__", CellTracer.attribute_set),
    ):
        yield owner, name, reports_to(CellTracer, tell)(vars(owner)[name])


watching = EffectHooks(_replacements)  # inside, tracers hear of effects that are no ops
