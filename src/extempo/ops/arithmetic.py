"""Arithmetic on each element: sums, products, powers, remainders."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Elementwise, Rng, Sample, Signature, samples_binary, samples_unary
from ..core.tensor import Tensor, TensorLike
from ..core.tensor_methods import TensorMethods, method
from ..core.types import (
    InputType,
    TensorType,
    as_dtype,
    bool_,
    dtype,
    float16,
    float64,
    get_default_dtype,
    result_dtype,
)
from ..dispatch.dispatcher import apply
from ..dispatch.fast_path import runner2
from ..dispatch.inplace import in_place
from ..errors import DtypeError, NumericalError, ShapeError
from .define import Function, Operand, binary, deliver, deliver_converted, dunders, inplace_method, unary

__all__ = [
    "abs",
    "absolute",
    "add",
    "addcdiv",
    "addcmul",
    "angle",
    "conj",
    "conj_physical",
    "div",
    "divide",
    "float_power",
    "floor_divide",
    "fmod",
    "lerp",
    "mul",
    "multiply",
    "neg",
    "negative",
    "positive",
    "pow",
    "real",
    "remainder",
    "resolve_conj",
    "resolve_neg",
    "rsub",
    "sgn",
    "sign",
    "sub",
    "subtract",
    "true_divide",
]

Array = np.ndarray[Any, Any]


class Add(Elementwise):
    """input + other, element by element."""

    numpy = np.add
    samples = staticmethod(samples_binary)
    vjp = staticmethod(lambda g, y, a, b: (g, g))
    lower = staticmethod(lambda e, a, b: e.add(a, b))


class Sub(Elementwise):
    """input - other, element by element."""

    domain = "if"
    numpy = np.subtract
    samples = staticmethod(samples_binary)
    vjp = staticmethod(lambda g, y, a, b: (g, -g))
    lower = staticmethod(lambda e, a, b: e.sub(a, b))


class Mul(Elementwise):
    """input * other, element by element.

    >>> ex.mul(ex.tensor([1.0, 2.0]), ex.tensor([[3.0], [4.0]]))
    tensor([[3., 6.],
            [4., 8.]])
    """

    wide_numbers = True
    numpy = np.multiply
    samples = staticmethod(samples_binary)
    vjp = staticmethod(lambda g, y, a, b: (g * b, g * a))
    lower = staticmethod(lambda e, a, b: e.mul(a, b))


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


class Neg(Elementwise):
    """-input.

    >>> ex.neg(ex.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """

    domain = "if"
    quiet = True
    numpy = np.negative
    samples = staticmethod(samples_unary)
    vjp = staticmethod(lambda g, y, x: (-g,))
    lower = staticmethod(lambda e, x: e.neg(x))


class Zero(Elementwise):
    """Zeros in the shape of the input: the gradient of everything piecewise constant."""

    quiet = True
    numpy = np.zeros_like
    samples = staticmethod(samples_unary)
    vjp = staticmethod(lambda g, y, x: (zero(g),))
    lower = staticmethod(lambda e, x: e.number(0, x))


def zero(x: Tensor) -> Tensor:
    """Zeros in the shape of x."""
    return apply(Zero, (x,))


class Abs(Elementwise):
    """The absolute value; its gradient at 0 is 0.

    >>> ex.abs(ex.tensor([-1.5, 2.0]))
    tensor([1.5000, 2.0000])
    """

    domain = "if"
    quiet = True
    numpy = np.absolute
    samples = staticmethod(samples_unary)
    vjp = staticmethod(lambda g, y, x: (g * sign(x),))
    lower = staticmethod(lambda e, x: e.abs(x))


class Sign(Elementwise):
    """-1, 0 or 1 by the sign of each element; NaN gives 0.

    >>> ex.sign(ex.tensor([-3.0, 0.0, 0.5]))
    tensor([-1.,  0.,  1.])
    """

    vjp = staticmethod(lambda g, y, x: (zero(g),))
    lower = staticmethod(lambda e, x: e.sign(x))

    @staticmethod
    def numpy(x: Array) -> Array:
        return np.greater(x, 0).astype(x.dtype) - np.less(x, 0).astype(x.dtype) if x.dtype != np.bool_ else x.copy()

    samples = staticmethod(samples_unary)


def _power(x: Any, exponent: Any) -> Any:
    try:
        return operator.pow(x, exponent)  # the operator has NumPy's fast paths, for 2 and -1
    except ValueError:
        # Integers to negative powers: the whole part, which is 0 but for the powers of 1 and -1.
        whole = np.where(np.equal(x, 1), 1, np.where(np.equal(x, -1), 1 - 2 * (exponent & 1), 0))
        return np.where(exponent < 0, whole, np.power(x, np.maximum(exponent, 0))).astype(exponent.dtype)


class _Power(Elementwise, abstract=True):
    """input ** exponent. PyTorch's results for the powers 1/2 and -1/2 depend on what the exponent is.

    To a number they are roots, which are -0.0 at -0.0 and NaN at -inf. To a tensor they are those of C's pow:
    0.0 at -0.0 and inf at -inf. (In float16 to a number, too.)
    """

    @classmethod
    def vjp(cls, g: Tensor, y: Tensor, x: Tensor, exponent: Tensor) -> tuple[Any, ...]:
        # 0 ** 0 is 1 whatever the base does; where the base is 0, y * ops.log(x) would be 0 * -inf.
        dx = ops.where(ops.eq(exponent, 0), 0.0, g * (exponent * apply(cls, (x, exponent - 1))))
        dexponent = g * ops.where(ops.logical_and(ops.eq(x, 0), ops.ge(exponent, 0)), 0.0, y * ops.log(x))
        return dx, dexponent


class Pow(_Power):
    """input ** exponent, element by element, for an exponent that is a number."""

    lower = staticmethod(lambda e, x, exponent: e.pow(x, exponent, by_roots=True))

    @staticmethod
    def numpy(x: Any, exponent: Any) -> Any:
        by_root = np.equal(np.abs(exponent), 0.5)
        if not by_root.any():
            return _power(x, exponent)
        root = np.sqrt(x)
        root = np.where(np.greater(exponent, 0), root, np.reciprocal(root))
        return root if by_root.all() else np.where(by_root, root, _power(x, exponent))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for exponent in (2, 3.0, -1.5, 0.0):
            yield Sample(rng.uniform(0.3, 2.0, size=(3, 2)), exponent)
        yield Sample(rng.uniform(-2, 2, size=(3, 2)), 3.0)
        yield Sample(rng.uniform(0.3, 2.0, size=()), -0.5)
        yield Sample(np.empty((0, 3)), 0.5)


class PowTensor(_Power):
    """input ** exponent, element by element, for a tensor of exponents, and in float16 for a number."""

    lower = staticmethod(lambda e, x, exponent: e.pow(x, exponent))

    @staticmethod
    def numpy(x: Any, exponent: Any) -> Any:
        by_root = np.equal(np.abs(exponent), 0.5)
        if by_root.any():  # NumPy may take a root: of these bases it is what C's pow gives
            base = x if hasattr(x, "dtype") else exponent.dtype.type(x)
            x = np.where(by_root, np.where(np.equal(base, -np.inf), np.inf, base + 0.0), base)
        return _power(x, exponent)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_binary(rng, 0.3, 2.0)
        yield Sample(2.0, rng.uniform(-2, 2, size=(3, 2)))


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


class Lerp(Elementwise):
    """From `input` (weight 0) to `end` (weight 1) in a straight line; both ends are met exactly."""

    domain = "f"
    vjp = staticmethod(lambda g, y, x, end, weight: (g - g * weight, g * weight, g * (end - x)))

    @staticmethod
    def numpy(x: Any, end: Any, weight: Any) -> Any:
        way = end - x
        return np.where(np.abs(weight) < 0.5, x + weight * way, end - way * (1 - weight))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x, end = rng.normal(size=(3, 4)), rng.normal(size=(4,))
        yield Sample(x, end, 0.3)
        yield Sample(x, end, rng.uniform(0, 1, size=(3, 1)))
        yield Sample(x, np.empty((0, 3, 4)), 1.5)

    @staticmethod
    def lower(e: Any, x: Any, end: Any, weight: Any) -> Any:
        way = e.sub(end, x)
        near = e.add(x, e.mul(weight, way))
        return e.where(e.lt(e.abs(weight), 0.5), near, e.sub(end, e.mul(way, e.sub(1.0, weight))))


class Cast(Elementwise):
    """The same values in another dtype."""

    public_name = "to"
    saves = ("",)

    @classmethod
    def signature(cls, types: tuple[InputType, ...], attrs: dict[str, Any]) -> Signature:
        return Signature(cls.infer(*types, **attrs), None)

    @classmethod
    def infer(cls, *types: InputType, dtype: dtype) -> TensorType:  # type: ignore[override] # its one attribute
        (x,) = types
        return TensorType(x.shape if isinstance(x, TensorType) else (), dtype)

    @staticmethod
    def numpy(x: Any, *, dtype: dtype) -> Any:
        return np.asarray(x).astype(dtype.numpy)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Any, *, dtype: dtype) -> tuple[Any, ...]:
        return (g,)  # the engine converts it back

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.integers(0, 5, size=(3, 4)), dtype=as_dtype("float64"))
        yield Sample(rng.normal(size=()), dtype=as_dtype("float64"))

    @staticmethod
    def lower(e: Any, x: Any, *, dtype: dtype) -> Any:
        return e.cast(x, dtype)


mul = multiply = binary(Mul, "multiply")
neg = negative = unary(Neg, "negative")
abs = absolute = unary(Abs, "absolute")
sign: Function = unary(Sign)
sgn = sign
method(sign, "sgn")
inplace_method("sgn_", sign)
floor_divide: Function = binary(FloorDivide)
remainder, fmod = binary(Remainder), binary(Fmod)


_plus, _minus = binary(Add, inplace=False), binary(Sub, inplace=False)
_PLAIN = (bool, int, float)


def _times(other: Operand, alpha: Operand, fellow: Operand) -> Any:
    """alpha * other in the dtype of the sum with `fellow`.

    A number that stands for others is not looked at where a factor of 1 changes nothing.
    """
    if not isinstance(alpha, Tensor):
        stands_for_others = type(alpha) not in _PLAIN and isinstance(other, Tensor) and other.is_floating_point()
        if not stands_for_others and alpha == 1:
            return other
    if isinstance(other, Tensor):
        kind = result_dtype([x._type if isinstance(x, Tensor) else x.__class__ for x in (other, fellow)])
        other = other if other.dtype is kind else other.to(kind)
        if kind is bool_ and not isinstance(alpha, Tensor):
            alpha = bool(alpha)
    return apply(Mul, (other, alpha))


@method
def add(input: Operand, other: Operand, *, alpha: Operand = 1, out: Tensor | None = None) -> Tensor:
    """input + alpha * other.

    >>> ex.add(ex.tensor([1.0, 2.0]), ex.tensor([10.0, 20.0]), alpha=2)
    tensor([21., 42.])
    """
    return _plus(input, _times(other, alpha, input), out=out)


@method
def sub(input: Operand, other: Operand, *, alpha: Operand = 1, out: Tensor | None = None) -> Tensor:
    """input - alpha * other.

    >>> ex.sub(ex.tensor([1.0, 2.0]), ex.tensor([0.5, 0.5]), alpha=2)
    tensor([0., 1.])
    """
    return _minus(input, _times(other, alpha, input), out=out)


subtract = method(sub, "subtract")
inplace_method("add_", add)
inplace_method("sub_", sub)
inplace_method("subtract_", sub)


def rsub(input: Operand, other: Operand, *, alpha: Operand = 1) -> Tensor:
    """other - alpha * input.

    >>> ex.rsub(ex.tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
    return sub(other, input, alpha=alpha)


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
    types = [x._type if isinstance(x, Tensor) else x.__class__ for x in (input, other)]
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


_pow, _pow_tensor = runner2(Pow), runner2(PowTensor)


@method
def pow(input: Operand, exponent: Operand, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent, element by element.

    >>> ex.pow(ex.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    run = _pow if _power_op(input, exponent) is Pow else _pow_tensor
    return deliver_converted(run(input, exponent), out, input, exponent)


def _power_op(base: Operand, exponent: Operand) -> type[_Power]:
    if isinstance(exponent, Tensor | TensorLike) or not isinstance(base, Tensor):
        return PowTensor
    if type(exponent) is int and exponent < 0 and not base.is_floating_point():
        raise NumericalError(f"pow: integers cannot be raised to the power {exponent}; use x.float() ** {exponent}")
    return PowTensor if base.dtype is float16 else Pow


def _pow_in_place(self: Tensor, exponent: Operand) -> Tensor:
    return in_place(self, _power_op(self, exponent), (self, exponent))


inplace_method("pow_", pow)
method(lambda self, exponent: pow(self, exponent), "__pow__")
method(lambda self, base: _pow_tensor(base, self), "__rpow__")
method(_pow_in_place, "__ipow__")


@method
def float_power(input: Operand, exponent: Operand, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent in float64, whatever the dtypes are.

    >>> ex.float_power(ex.tensor([2, 3]), 2)
    tensor([4., 9.], dtype=extempo.float64)
    """
    base = ops.as_tensor(input, dtype=float64)
    power = exponent.to(float64) if isinstance(exponent, Tensor | TensorLike) else exponent
    return deliver(pow(base, power), out, input, exponent)


inplace_method("float_power_", float_power)


@method
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Operand = 1, out: Tensor | None = None
) -> Tensor:
    """input + value * tensor1 * tensor2.

    >>> ex.addcmul(ex.tensor([1.0, 1.0]), ex.tensor([2.0, 3.0]), ex.tensor([4.0, 5.0]), value=0.5)
    tensor([5.0000, 8.5000])
    """
    result = add(input, mul(tensor1, tensor2), alpha=value)
    return deliver_converted(result, out, input, tensor1, tensor2)


@method
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Operand = 1, out: Tensor | None = None
) -> Tensor:
    """input + value * tensor1 / tensor2; integers are refused, because the quotient would not be one.

    >>> ex.addcdiv(ex.tensor([1.0, 1.0]), ex.tensor([6.0, 8.0]), ex.tensor([2.0, 4.0]), value=0.5)
    tensor([2.5000, 2.0000])
    """
    if not any(x.is_floating_point() for x in (tensor1, tensor2)):
        raise DtypeError(f"addcdiv: expected floating tensors to divide, got {tensor1.dtype}; use x.float()")
    result = add(input, div(tensor1, tensor2), alpha=value)
    return deliver_converted(result, out, input, tensor1, tensor2)


@method
def lerp(input: Tensor, end: Tensor, weight: Operand, *, out: Tensor | None = None) -> Tensor:
    """From `input` (weight 0) to `end` (weight 1) in a straight line.

    >>> ex.lerp(ex.tensor([0.0, 10.0]), ex.tensor([4.0, 20.0]), 0.25)
    tensor([ 1.0000, 12.5000])
    """
    return deliver_converted(apply(Lerp, (input, end, weight)), out, input, end, weight)


for _fn in (addcmul, addcdiv, lerp):
    inplace_method(_fn.__name__ + "_", _fn)


@method
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """pi for negative numbers, 0 for the others: the angle in the complex plane.

    >>> ex.angle(ex.tensor([-2.0, 0.0, 2.0]))
    tensor([3.1416, 0.0000, 0.0000])
    """
    x = input if input.is_floating_point() else input.to(get_default_dtype())
    result = ops.where(ops.isnan(x), x.detach(), ops.where(ops.lt(x, 0), math.pi, zero(x)))
    return deliver_converted(result, out, input)


@method
def real(input: Tensor) -> Tensor:
    """The tensor itself: Extempo has no complex tensors.

    >>> x = ex.tensor([1.0, -2.0])
    >>> ex.real(x) is x
    True
    """
    return input


conj, conj_physical, resolve_conj, resolve_neg = real, real, real, real
for _name in ("conj", "conj_physical", "conj_physical_", "resolve_conj", "resolve_neg"):
    method(real, _name)


for _op, _name in (
    (Add, "add"),
    (Sub, "sub"),
    (Mul, "mul"),
    (Div, "truediv"),
    (FloorDivide, "floordiv"),
    (Remainder, "mod"),
):
    for _fn, _prefix in zip(dunders(_op), ("", "r", "i"), strict=True):
        method(_fn, f"__{_prefix}{_name}__")
method(TensorMethods.__rtruediv__, "__rdiv__")
method(neg, "__neg__")
method(abs, "__abs__")


@method
def positive(input: Tensor) -> Tensor:
    """The tensor itself; bool tensors are refused, as in PyTorch.

    >>> x = ex.tensor([1.0, -2.0])
    >>> ex.positive(x) is x
    True
    """
    if input.dtype is bool_:
        raise DtypeError("positive: expected numbers, got a bool tensor")
    return input


method(positive, "__pos__")
