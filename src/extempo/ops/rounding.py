"""Whole parts, fractions and the parts of a floating number: mantissa, exponent, neighbour."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..core.op import Decomposed, Elementwise, Refuse, samples_binary, samples_unary
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import InputType, TensorType, int32
from ..dispatch.dispatcher import apply
from ..errors import DtypeError
from .define import Operand, binary, deliver, deliver_converted, deliver_each, inplace_method, unary

__all__ = ["ceil", "fix", "floor", "frac", "frexp", "ldexp", "nextafter", "round", "trunc"]


class _Rounding(Elementwise, abstract=True):
    """To a whole number; integers stay as they are."""

    domain = "if"
    samples = staticmethod(samples_unary)
    vjp = staticmethod(lambda g, y, x: (ops.zero(g),))

    @classmethod
    def lower(cls, e: Any, *inputs: Any) -> Any:
        return getattr(e, cls.name)(*inputs)


def _kernel(ufunc: Any) -> Any:
    def kernel(x: Any) -> Any:
        return ufunc(x) if x.dtype.kind not in "iub" else x.copy()

    return staticmethod(kernel)


class Floor(_Rounding):
    """The largest whole number not above each element.

    >>> ex.floor(ex.tensor([-1.5, 0.5]))
    tensor([-2.,  0.])
    """

    numpy = _kernel(np.floor)


class Ceil(_Rounding):
    """The smallest whole number not below each element.

    >>> ex.ceil(ex.tensor([-1.5, 0.5]))
    tensor([-1.,  1.])
    """

    numpy = _kernel(np.ceil)


class Trunc(_Rounding):
    """Each element without its fraction.

    >>> ex.trunc(ex.tensor([-1.5, 1.5]))
    tensor([-1.,  1.])
    """

    numpy = _kernel(np.trunc)


class RoundHalfEven(_Rounding):
    """The nearest whole number; halves go to the even one."""

    public_name = "round"
    numpy = _kernel(np.rint)


class Frexp(Elementwise):
    """Each element as mantissa * 2**exponent, with a mantissa from 0.5 to 1."""

    domain = "f"
    saves = ("y.1",)
    numpy = np.frexp
    batch = Refuse("looped over samples")
    samples = staticmethod(lambda rng: samples_unary(rng, 0.6, 5.0))

    @classmethod
    def _rule(cls, types: tuple[InputType, ...]) -> tuple[Any, Any]:
        x, compute = super()._rule(types)
        return (x, TensorType(x.shape, int32)), compute

    @staticmethod
    def vjp(g: Any, y: Any, x: Any) -> tuple[Any, ...]:
        return (ldexp(g[0], -y[1]),)

    lower = Refuse("native code for elements has one result")

    @Decomposed
    def onnx(x: Tensor) -> tuple[Tensor, Tensor]:
        """The exponent by a logarithm, which may be off by one near powers of two; the mantissa tells."""
        size = ops.abs(x)
        is_plain = ops.logical_and(ops.isfinite(x), ops.ne(x, 0.0))
        exponent = ops.floor(ops.log2(ops.where(is_plain, size, 1.0))) + 1.0
        half = ops.floor(exponent * 0.5)
        mantissa = x * ops.exp2(-half) * ops.exp2(half - exponent)
        high, low = ops.ge(ops.abs(mantissa), 1.0), ops.lt(ops.abs(mantissa), 0.5)
        mantissa = ops.where(high, mantissa * 0.5, ops.where(low, mantissa * 2.0, mantissa))
        exponent = exponent + high.to(x.dtype) - low.to(x.dtype)
        return ops.where(is_plain, mantissa, x), ops.where(is_plain, exponent, 0.0).to(int32)


class Nextafter(Elementwise):
    """The floating number next to `input` on the way to `other`.

    >>> ex.nextafter(ex.tensor([1.0]), ex.tensor([2.0])) - 1.0
    tensor([1.1921e-07])
    """

    domain = "f"
    numpy = np.nextafter
    samples = staticmethod(samples_binary)
    vjp = staticmethod(lambda g, y, a, b: (g, ops.zero(g)))
    lower = staticmethod(lambda e, a, b: e.nextafter(a, b))
    onnx = Refuse("the next number is known by the bits, which ONNX up to opset 21 has no operator for")


floor, ceil = unary(Floor), unary(Ceil)
trunc = fix = unary(Trunc, "fix")
nextafter = binary(Nextafter)


@method
def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """The nearest number with that many decimals; halves go to the even one.

    >>> ex.round(ex.tensor([0.5, 1.5, 2.25]))
    tensor([0., 2., 2.])
    >>> ex.round(ex.tensor([3.14159]), decimals=2)
    tensor([3.1400])
    """
    if decimals == 0:
        return deliver(apply(RoundHalfEven, (input,)), out, input)
    if not input.is_floating_point():
        raise DtypeError(f"round: decimals={decimals} needs a floating tensor, got {input.dtype}; use x.float()")
    # Both scales are powers of ten above 1, which are exact where their inverses are not.
    scale = 10.0 ** abs(decimals)
    scaled = apply(RoundHalfEven, (input * scale if decimals > 0 else input / scale,))
    return deliver(scaled / scale if decimals > 0 else scaled * scale, out, input)


inplace_method("round_", round)


@method
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """What `trunc` takes away, with the sign of the element.

    >>> ex.frac(ex.tensor([-1.25, 2.5]))
    tensor([-0.2500,  0.5000])
    """
    if not input.is_floating_point():
        raise DtypeError(f"frac: expected a floating tensor, got {input.dtype}; integers have no fraction")
    return deliver(input - trunc(input), out, input)


inplace_method("frac_", frac)


class FrexpResult(NamedTuple):
    """What `frexp` returns."""

    mantissa: Tensor
    exponent: Tensor


@method
def frexp(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> FrexpResult:
    """Each element as mantissa * 2**exponent, with a mantissa from 0.5 to 1 and an int32 exponent.

    >>> ex.frexp(ex.tensor([1.0, 12.0]))
    FrexpResult(mantissa=tensor([0.5000, 0.7500]), exponent=tensor([1, 4], dtype=extempo.int32))
    """
    return deliver_each(FrexpResult(*apply(Frexp, (input,))), out)


@method
def ldexp(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """input * 2**other.

    >>> ex.ldexp(ex.tensor([1.0, 3.0]), ex.tensor([2, 3]))
    tensor([ 4., 24.])
    """
    return deliver_converted(ops.mul(input, ops.pow(2.0, other)), out, input, other)


inplace_method("ldexp_", ldexp)
