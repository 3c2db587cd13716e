"""Powers of each element, with the results of PyTorch at 0 and at infinity."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Elementwise, Rng, Sample, samples_binary
from ..core.tensor import Tensor, TensorLike
from ..core.tensor_methods import method
from ..core.types import float16, float64
from ..dispatch.dispatcher import apply
from ..dispatch.fast_path import runner2
from ..dispatch.inplace import in_place
from ..errors import NumericalError
from .define import Operand, deliver, deliver_converted, inplace_method

__all__ = ["float_power", "pow"]


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
