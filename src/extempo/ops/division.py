"""Quotients and remainders of each element: true, rounded down, rounded towards 0."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Elementwise, Rng, Sample, samples_binary
from ..core.tensor import Tensor
from ..core.tensor_methods import TensorMethods, method
from ..core.types import TensorType, result_dtype
from ..dispatch.dispatcher import apply, as_input
from ..errors import DtypeError, NumericalError, ShapeError
from . import old_forms
from .arithmetic import abs, add, sub, zero
from .define import Function, Operand, binary, deliver_converted, inplace_method, operators

__all__ = ["addcdiv", "div", "divide", "floor_divide", "fmod", "remainder", "true_divide"]


class Div(Elementwise):
    """input / other, element by element; integers give floats."""

    to_float = True
    wide_numbers = True
    numpy = np.true_divide
    lower = staticmethod(lambda e, a, b: e.div(a, b))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        if isinstance(a._type, TensorType):
            return g / b, -g * ((a / b) / b)
        # A number over b: y * y / a, so that b may be overwritten; with the right limits where a is 0 or infinite.
        slope = ops.where(ops.eq(abs(y), math.inf), y * a, y / (a + ops.eq(a, 0)))
        return g / b, -g * (y * slope)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_binary(rng, 0.5, 2.0)
        yield Sample(2.0, rng.uniform(0.5, 2.0, size=(3,)))


def _no_integer_zero(name: str, fn: Any) -> Any:
    def checked(a: Any, b: Any) -> Any:
        if getattr(b, "dtype", np.dtype(np.float64)).kind in "iu" and not np.all(b):
            raise NumericalError(f"{name}: division of integers by zero")
        return fn(a, b)

    return staticmethod(checked)


def _remainder(a: Any, b: Any) -> Any:
    rest = np.fmod(a, b)  # a rest of 0 has the sign of the dividend, as in PyTorch
    return np.where((rest != 0) & ((rest < 0) != np.less(b, 0)), rest + b, rest)


class FloorDivide(Elementwise):
    """The quotient rounded towards minus infinity.

    >>> ex.floor_divide(ex.tensor([7.0, -7.0]), 2)
    tensor([ 3., -4.])
    """

    domain = "if"
    numpy = _no_integer_zero("floor_divide", np.floor_divide)
    vjp = staticmethod(lambda g, y, a, b: (zero(g), zero(g)))
    samples = staticmethod(lambda rng: samples_binary(rng, 0.5, 3.0))
    lower = staticmethod(lambda e, a, b: e.floor_divide(a, b))


class TruncDivide(Elementwise):
    """The quotient rounded towards zero; its gradient is 0, also where the quotient is infinite."""

    public_name = "div"
    domain = "f"
    wide_numbers = True
    numpy = staticmethod(lambda a, b: np.trunc(np.true_divide(a, b)))
    vjp = FloorDivide.vjp
    samples = FloorDivide.samples
    lower = staticmethod(lambda e, a, b: e.trunc(e.div(a, b)))


class Remainder(Elementwise):
    """What is left after dividing, with the sign of the divisor (Python's %).

    >>> ex.remainder(ex.tensor([7.0, -7.0]), 3)
    tensor([1., 2.])
    """

    domain = "if"
    numpy = _no_integer_zero("remainder", _remainder)
    vjp = staticmethod(lambda g, y, a, b: (g, -g * floor_divide(a, b)))
    samples = staticmethod(lambda rng: samples_binary(rng, 0.5, 3.0))
    lower = staticmethod(lambda e, a, b: e.remainder(a, b))


class Fmod(Elementwise):
    """What is left after dividing, with the sign of the dividend (C's fmod).

    >>> ex.fmod(ex.tensor([7.0, -7.0]), 3)
    tensor([ 1., -1.])
    """

    domain = "if"
    numpy = _no_integer_zero("fmod", np.fmod)
    vjp = staticmethod(lambda g, y, a, b: (g, -g * ops.trunc(a / b)))
    samples = staticmethod(lambda rng: samples_binary(rng, 0.5, 3.0))
    lower = staticmethod(lambda e, a, b: e.fmod(a, b))


floor_divide: Function = binary(FloorDivide)
remainder, fmod = binary(Remainder), binary(Fmod)


@method
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """input / other; `rounding_mode` is None, "trunc" or "floor".

    >>> ex.div(ex.tensor([7.0, -7.0]), 2)
    tensor([ 3.5000, -3.5000])
    >>> ex.div(ex.tensor([7.0, -7.0]), 2, rounding_mode="floor")
    tensor([ 3., -4.])
    """
    if rounding_mode is None:
        return deliver_converted(apply(Div, (input, other)), out, input, other)
    if rounding_mode == "floor":
        return deliver_converted(floor_divide(input, other), out, input, other)
    if rounding_mode != "trunc":
        raise ShapeError(f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}")
    numbers = (as_input(x) if isinstance(x, np.generic) else x for x in (input, other))
    types = [x._type if isinstance(x, Tensor) else x.__class__ for x in numbers]
    kind = result_dtype(types)
    if kind.is_floating_point:
        return deliver_converted(apply(TruncDivide, (input, other)), out, input, other)
    # Floats cannot hold every int64 quotient: take the exact remainder away first.
    rest = fmod(input, other)
    return deliver_converted(floor_divide(sub(input, rest), other), out, input, other)


divide = method(div, "divide")
method(div, "true_divide")
true_divide = div
inplace_method("div_", div)
inplace_method("divide_", div)
inplace_method("true_divide_", div)


@method
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *_old: Any, value: Operand = 1, out: Tensor | None = None
) -> Tensor:
    """input + value * tensor1 / tensor2; integers are refused, because the quotient would not be one.

    >>> ex.addcdiv(ex.tensor([1.0, 1.0]), ex.tensor([6.0, 8.0]), ex.tensor([2.0, 4.0]), value=0.5)
    tensor([2.5000, 2.0000])
    """
    if _old:
        value, tensor1, tensor2 = old_forms.scaled("addcdiv", "value", tensor1, tensor2, *_old)
    if not any(x.is_floating_point() for x in (tensor1, tensor2)):
        raise DtypeError(f"addcdiv: expected floating tensors to divide, got {tensor1.dtype}; use x.float()")
    result = add(input, div(tensor1, tensor2), alpha=value)
    return deliver_converted(result, out, input, tensor1, tensor2)


inplace_method("addcdiv_", addcdiv)


operators(Div, "truediv")
operators(FloorDivide, "floordiv")
operators(Remainder, "mod")
method(TensorMethods.__rtruediv__, "__rdiv__")
