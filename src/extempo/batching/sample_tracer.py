"""What happens inside one sample: its ops and cells become calls of the run.

A `SampleTracer` is the interceptor of everything its function does. Views of tensors from outside and ops without
tensors run at once; so does whatever can only run eagerly, on values that are waited for.
"""

from __future__ import annotations

import functools
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NoReturn

from ..backends import entry_points
from ..backends.selection import native
from ..core.context import CONTEXT, ExecutionContext
from ..core.op import Op
from ..core.tensor import Tensor, TensorLike
from ..dispatch.dispatcher import apply, as_input
from ..dispatch.inplace import check_fits
from ..errors import AutogradError
from ..nn import module as nn_module
from .call_cache import learn_op, recorder
from .cells import find, pass_over
from .greenlets import GreenletHub
from .kinds import takes_numbers
from .op_kinds import kind_of
from .parts import Stretch, stretch_of
from .sizes.together import adopt

if TYPE_CHECKING:
    from .cells import Cell
    from .run import BatchExecutor

_NUMBERS = (float, int, bool)
_ALONE = 2  # references to a storage that no view shares: its tensor's, and that of the one who counts


class SampleTracer:
    """The interceptor of one sample of a run."""

    __slots__ = ("_mark", "_modes", "_viewed", "hub", "inner", "number", "run")

    def __init__(self, run: BatchExecutor, number: int, hub: GreenletHub) -> None:
        self.run = run
        self.number = number
        self.hub = hub
        self.inner: list[SampleTracer] = []  # of samples that this one has started and waits for
        _show_cells()
        self._modes: tuple[Any, Any] = (None, None)  # the last one that ops were to run at once in, without this sample
        self._mark = object()  # on memory that the sample filled (ex.zeros); it must not keep the sample alive
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
        else:  # no value of the run is among them: a view costs less than a call, and no tensors make no batch
            if op.aliases_input or not any(isinstance(x, Tensor) for x in inputs):
                return self._at_once(op, inputs, attrs)
        grad = CONTEXT.get().grad
        if op.aliases_input and inputs[0]._source is run:
            stretch = stretch_of(op, inputs[0]._type, inputs[1:], attrs)
            if stretch is not None:
                return self._part(op, inputs[0], stretch, grad)
        own = run.own_leaves
        kind, operands = kind_of(op, inputs, attrs, grad, own)
        if kind.is_new:
            kind.is_new = False
            adopt(kind)
        if not operands and not kind.alone:
            made = run.constant(kind, self.number)
            return made[0] if kind.single else tuple(made)
        made = run.call(kind, operands, self.number)
        if native() is not None and not (own and any(id(x) in own for x in inputs)):
            learn_op(op, inputs, attrs, grad, kind, kind.single, takes_numbers(op))
        if op.aliases_input:
            self._viewed.update(x._value_id for x in (inputs[0], *made) if x._source is run)
        return made[0] if kind.single else tuple(made)

    def _part(self, op: type[Op], x: Tensor, stretch: Stretch, grad: bool) -> Tensor:
        part = self.run.part_of(x, stretch, grad and x._history is not None and op.name != "detach")
        self._viewed.update((x._value_id, part._value_id))
        return part

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
        if cell is None or cell.runs_as_ops:
            return NotImplemented
        grad = CONTEXT.get().grad
        call = None if cell.why_ordinary() else cell.call(args, kwargs, grad)
        if call is None:
            self.ran_as_function(cell, callable_)
            return NotImplemented
        made = self.run.call(call.kind, call.inputs, self.number)
        if native() is not None:
            cell.learn(call, args, kwargs, grad)
        return call.rebuild(made)

    def ran_as_function(self, cell: Cell, callable_: Any) -> None:
        """The ops of a call are to run as such."""
        if cell.candidate is None:
            if cell.is_marked:
                self.run.notes.ran_as_function(f"cell {cell.name}", cell.declined)
            return
        why = cell.why_ordinary()
        if why and callable_ is cell:  # a region, whose statements run where they stand
            return
        if why:
            self.run.notes.ran_as_function(f"module {cell.name}", why)
            pass_over(callable_)
        else:
            self.run.notes.is_warming_up = True

    def made(self, t: Tensor) -> None:
        """A tensor that the sample has filled with something, which is its own to write to."""
        if t._memory is not None:  # a value of the run is its own anyway
            t._memory.filled_by = self._mark

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        """In-place writes to the sample's own tensors: they mean other values from now on."""
        run = self.run
        if target._source is not run:
            own = getattr(target._memory, "filled_by", None) in (self._mark, self.hub)
            if not own or target.requires_grad or getrefcount(target._memory) > _ALONE:
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

    def move_to(self, run: BatchExecutor) -> None:
        """Record in another run from now on. Nothing waits in the one before, and its values have escaped.

        Those that the sample may write to have memory that is marked with the hub (`open_run`).
        """
        self.run = run
        self._viewed.clear()
        for sample in self.inner:
            sample.move_to(run)

    def viewed(self) -> set[int]:
        """Values of the run that share memory with others, those of the samples inside included."""
        return self._viewed.union(*[sample.viewed() for sample in self.inner])

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


@functools.cache
def _show_cells() -> None:
    """From now on modules show calls of cells to `call_cell` while a batch runs."""
    native()
    entry_points.CALL_CELL.bind(nn_module, "call_cell", lambda: recorder().call_cell, call_cell)


def call_cell(callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Show a call of a cell to the sample that makes it. NotImplemented: there is none, the cell's body is to run."""
    sample = CONTEXT.get().interceptor
    return sample.call_cell(callable_, args, kwargs) if type(sample) is SampleTracer else NotImplemented
