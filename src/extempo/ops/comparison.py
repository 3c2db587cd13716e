"""Questions asked of each element: comparisons, logic, bits, finiteness."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from .. import ops
from ..core.op import Decomposed, Elementwise, Refuse, Rng, Sample, samples_binary, samples_unary
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import get_default_dtype
from ..dispatch.fast_path import runner2
from ..errors import NumericalError
from .define import Function, Operand, binary, deliver, operators, unary

__all__ = [
    "allclose",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "eq",
    "equal",
    "gcd",
    "ge",
    "greater",
    "greater_equal",
    "gt",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "lcm",
    "le",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "ne",
    "not_equal",
    "signbit",
]

_CONSTANT = Refuse("the result is piecewise constant")


class _Question(Elementwise, abstract=True):
    """Returns bool and has no gradient."""

    returns_bool = True
    vjp = _CONSTANT
    samples: ClassVar[Any] = staticmethod(samples_binary)

    @classmethod
    def lower(cls, e: Any, *inputs: Any) -> Any:
        return getattr(e, cls.name)(*inputs)


class Eq(_Question):
    """input == other.

    >>> ex.eq(ex.tensor([1, 2]), ex.tensor([1, 3]))
    tensor([ True, False])
    """

    numpy = np.equal


class Ne(_Question):
    """input != other.

    >>> ex.ne(ex.tensor([1, 2]), ex.tensor([1, 3]))
    tensor([False,  True])
    """

    numpy = np.not_equal


class Lt(_Question):
    """input < other.

    >>> ex.lt(ex.tensor([1, 2, 3]), 2)
    tensor([ True, False, False])
    """

    numpy = np.less


class Le(_Question):
    """input <= other.

    >>> ex.le(ex.tensor([1, 2, 3]), 2)
    tensor([ True,  True, False])
    """

    numpy = np.less_equal


class Gt(_Question):
    """input > other.

    >>> ex.gt(ex.tensor([1, 2, 3]), 2)
    tensor([False, False,  True])
    """

    numpy = np.greater


class Ge(_Question):
    """input >= other.

    >>> ex.ge(ex.tensor([1, 2, 3]), 2)
    tensor([False,  True,  True])
    """

    numpy = np.greater_equal


class LogicalAnd(_Question):
    """Both are nonzero.

    >>> ex.logical_and(ex.tensor([0, 1, 2]), ex.tensor([1, 0, 3]))
    tensor([False, False,  True])
    """

    numpy = np.logical_and


class LogicalOr(_Question):
    """At least one is nonzero.

    >>> ex.logical_or(ex.tensor([0, 1, 0]), ex.tensor([1, 0, 0]))
    tensor([ True,  True, False])
    """

    numpy = np.logical_or


class LogicalXor(_Question):
    """Exactly one is nonzero.

    >>> ex.logical_xor(ex.tensor([0, 1, 2]), ex.tensor([1, 0, 3]))
    tensor([ True,  True, False])
    """

    numpy = np.logical_xor


class LogicalNot(_Question):
    """The element is zero.

    >>> ex.logical_not(ex.tensor([0, 1, 2]))
    tensor([ True, False, False])
    """

    numpy = np.logical_not
    samples = staticmethod(samples_unary)


class Isnan(_Question):
    """The element is NaN.

    >>> ex.isnan(ex.tensor([1.0, ex.inf, ex.nan]))
    tensor([False, False,  True])
    """

    numpy = np.isnan
    samples = staticmethod(samples_unary)


class Isinf(_Question):
    """The element is plus or minus infinity.

    >>> ex.isinf(ex.tensor([1.0, -ex.inf, ex.nan]))
    tensor([False,  True, False])
    """

    numpy = np.isinf
    samples = staticmethod(samples_unary)


class Isfinite(_Question):
    """The element is neither infinite nor NaN.

    >>> ex.isfinite(ex.tensor([1.0, ex.inf, ex.nan]))
    tensor([ True, False, False])
    """

    numpy = np.isfinite
    samples = staticmethod(samples_unary)


class Signbit(_Question):
    """The sign bit is set; it is for -0.0 too.

    >>> ex.signbit(ex.tensor([-1.0, -0.0, 0.0]))
    tensor([ True,  True, False])
    """

    samples = staticmethod(samples_unary)
    numpy = staticmethod(lambda x: np.signbit(x) if x.dtype.kind == "f" else np.less(x, 0))


def _samples_bits(rng: Rng) -> Iterator[Sample]:
    yield Sample(rng.integers(0, 64, size=(3, 4)), rng.integers(0, 6, size=(4,)))
    yield Sample(rng.integers(0, 64, size=()), 3)
    yield Sample(np.empty((0, 2), np.int64), 1)


class _Bits(Elementwise, abstract=True):
    """Works on the bits of integers."""

    domain = "bi"
    quiet = True
    vjp = Refuse("integers have no gradient")
    samples: ClassVar[Any] = staticmethod(_samples_bits)

    @classmethod
    def lower(cls, e: Any, *inputs: Any) -> Any:
        return getattr(e, cls.name)(*inputs)


class BitwiseAnd(_Bits):
    """Bits set in both.

    >>> ex.bitwise_and(ex.tensor([6, 5]), 3)
    tensor([2, 1])
    """

    numpy = np.bitwise_and


class BitwiseOr(_Bits):
    """Bits set in either.

    >>> ex.bitwise_or(ex.tensor([6, 5]), 3)
    tensor([7, 7])
    """

    numpy = np.bitwise_or


class BitwiseXor(_Bits):
    """Bits set in exactly one.

    >>> ex.bitwise_xor(ex.tensor([6, 5]), 3)
    tensor([5, 6])
    """

    numpy = np.bitwise_xor


class BitwiseNot(_Bits):
    """Every bit turned over.

    >>> ex.bitwise_not(ex.tensor([0, 5])), ex.bitwise_not(ex.tensor([True]))
    (tensor([-1, -6]), tensor([False]))
    """

    numpy = np.invert

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.integers(-9, 9, size=(3, 4)))
        yield Sample(np.array([True, False]))


class BitwiseLeftShift(_Bits):
    """Bits moved up by `other` places.

    >>> ex.bitwise_left_shift(ex.tensor([1, 3]), 2)
    tensor([ 4, 12])
    """

    domain = "i"
    numpy = np.left_shift


class BitwiseRightShift(_Bits):
    """Bits moved down by `other` places, keeping the sign.

    >>> ex.bitwise_right_shift(ex.tensor([4, -8]), 2)
    tensor([ 1, -2])
    """

    domain = "i"
    numpy = np.right_shift


_EUCLID = Refuse("Euclid's loop takes another number of turns for every element")


def _by_euclid(flow: Any, a: Tensor, b: Tensor) -> Tensor:
    """The greatest common divisor in other ops: remainders until all are 0."""

    def next_pair(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        is_done = ops.eq(b, 0)
        return ops.where(is_done, a, b), ops.where(is_done, b, a % ops.where(is_done, 1, b))

    a, b = ops.broadcast_tensors(ops.abs(a), ops.abs(b))
    found: Tensor = flow.while_loop(lambda a, b: ops.ne(b, 0).any(), next_pair, (a, b))[0]
    return found


class Gcd(_Bits):
    """The greatest common divisor.

    >>> ex.gcd(ex.tensor([12, 7]), ex.tensor([18, 21]))
    tensor([6, 7])
    """

    domain = "i"
    numpy = np.gcd
    lower = _EUCLID  # type: ignore[assignment] # the family has native code, this member has not
    onnx = Decomposed(lambda flow, a, b: _by_euclid(flow, a, b))


class Lcm(_Bits):
    """The least common multiple.

    >>> ex.lcm(ex.tensor([4, 3]), ex.tensor([6, 5]))
    tensor([12, 15])
    """

    domain = "i"
    numpy = np.lcm
    lower = _EUCLID  # type: ignore[assignment] # the family has native code, this member has not

    @Decomposed
    def onnx(flow: Any, a: Tensor, b: Tensor) -> Tensor:
        divisor = _by_euclid(flow, a, b)
        return ops.abs(a // ops.where(ops.eq(divisor, 0), 1, divisor) * b)


eq: Function = binary(Eq)
ne = binary(Ne, "not_equal")
lt, le = binary(Lt, "less"), binary(Le, "less_equal")
gt, ge = binary(Gt, "greater"), binary(Ge, "greater_equal")
not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge
logical_and, logical_or, logical_xor = binary(LogicalAnd), binary(LogicalOr), binary(LogicalXor)
logical_not = unary(LogicalNot, converts=True)
isnan, isinf = unary(Isnan, inplace=False), unary(Isinf, inplace=False)
isfinite, signbit = unary(Isfinite, inplace=False), unary(Signbit, inplace=False)
bitwise_and, bitwise_or, bitwise_xor = binary(BitwiseAnd), binary(BitwiseOr), binary(BitwiseXor)
bitwise_not = unary(BitwiseNot)
bitwise_left_shift, bitwise_right_shift = binary(BitwiseLeftShift), binary(BitwiseRightShift)
gcd, lcm = binary(Gcd), binary(Lcm)


@method
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The element is plus infinity.

    >>> ex.isposinf(ex.tensor([-ex.inf, ex.inf]))
    tensor([False,  True])
    """
    # No integer is infinite, nor unequal to itself.
    result = eq(input, math.inf) if input.is_floating_point() else ne(input, input)
    return deliver(result, out, input)


@method
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The element is minus infinity.

    >>> ex.isneginf(ex.tensor([-ex.inf, ex.inf]))
    tensor([ True, False])
    """
    result = eq(input, -math.inf) if input.is_floating_point() else ne(input, input)
    return deliver(result, out, input)


@method
def isreal(input: Tensor) -> Tensor:
    """True everywhere: Extempo has no complex tensors.

    >>> ex.isreal(ex.tensor([1.0, -2.0]))
    tensor([True, True])
    """
    return ops.ones_like(input, dtype=ops.types.bool_)


@method
def isclose(input: Tensor, other: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """|input - other| <= atol + rtol * |other|, or equal.

    >>> ex.isclose(ex.tensor([1.0, 2.0]), ex.tensor([1.000001, 2.1]))
    tensor([ True, False])
    """
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise NumericalError(f"isclose: {name} must be 0 or more, got {tolerance}")
    a, b = ops.as_tensor(input), ops.as_tensor(other)
    # Distances of integers are those of floats: in their own dtype they would wrap around.
    wide_a, wide_b = (x if x.is_floating_point() else x.to(get_default_dtype()) for x in (a, b))
    near = le(ops.abs(wide_a - wide_b), atol + rtol * ops.abs(wide_b))
    # An infinite `other` allows any distance: only the same infinity is close to it.
    close = logical_or(eq(a, b), logical_and(near, isfinite(b)))
    if equal_nan:
        close = logical_or(close, logical_and(isnan(a), isnan(b)))
    return close


@method
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether every element is close; see `isclose`.

    >>> x = ex.tensor([1.0, 2.0])
    >>> ex.allclose(x, x + 1e-6), ex.allclose(x, x + 0.1)
    (True, False)
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@method
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape and the same elements.

    >>> ex.equal(ex.tensor([1, 2]), ex.tensor([1, 2])), ex.equal(ex.tensor([1, 2]), ex.tensor([1, 3]))
    (True, False)
    """
    return input.shape == other.shape and bool(eq(input, other).all())


for _question, _name in ((Eq, "eq"), (Ne, "ne"), (Lt, "lt"), (Le, "le"), (Gt, "gt"), (Ge, "ge")):
    method(runner2(_question), f"__{_name}__")

operators(BitwiseAnd, "and")
operators(BitwiseOr, "or")
operators(BitwiseXor, "xor")
operators(BitwiseLeftShift, "lshift")
operators(BitwiseRightShift, "rshift")
method(bitwise_not, "__invert__")
