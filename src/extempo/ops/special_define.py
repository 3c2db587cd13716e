"""What special functions share: tables in place of native code, and functions that tensors get no method of.

PyTorch has many of them in `special` only. Their ops are named `special_...`, and they are in no `__all__`.
"""

from __future__ import annotations

from ..core.op import Elementwise, Refuse
from ..core.tensor import Tensor
from ..dispatch.fast_path import runner1, runner2
from .define import Function, Operand, deliver_converted, numpy_names
from .transcendental import FloatingFunction

TABLES = Refuse("its regions and tables are NumPy code; no training loop waits for it")


class TableFunction(FloatingFunction, abstract=True):
    """A function of one variable that NumPy code computes from tables, region by region."""

    lower = TABLES  # type: ignore[assignment] # the family has native code, these members have not


def of_one(op: type[Elementwise]) -> Function:
    """The function of an op that PyTorch has in `special` only: tensors get no method of it."""
    return numpy_names(named(runner1(op, deliver_converted), op.name.removeprefix("special_"), op.__doc__))


def of_two(op: type[Elementwise]) -> Function:
    """`of_one` for a function of two operands."""
    run = runner2(op)

    def fn(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
        return run(input, other) if out is None else deliver_converted(run(input, other), out, input, other)

    return numpy_names(named(fn, op.name.removeprefix("special_"), op.__doc__))


def named(fn: Function, name: str, text: str | None) -> Function:
    """A function made here, with the name and the text that users see."""
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = text
    return fn
