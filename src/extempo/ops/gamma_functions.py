"""Gamma functions and their relatives. Values come from `backends.numpy.special`, gradients are those of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from .. import ops
from ..backends.numpy import special as kernels
from ..core.op import Decomposed, Elementwise, Rng, Sample
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import Number
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, NotDifferentiableError, ShapeError
from .define import Function, binary, deliver_converted, inplace_method, unary
from .special_define import TABLES, TableFunction, of_two
from .transcendental import FloatingFunction

__all__ = ["digamma", "igamma", "igammac", "lgamma", "mvlgamma", "polygamma"]


class Lgamma(FloatingFunction):
    """The logarithm of the absolute value of the gamma function.

    >>> ex.lgamma(ex.tensor([1.0, 3.0, 5.0]))
    tensor([0.0000, 0.6931, 3.1781])
    """

    numpy = staticmethod(kernels.lgamma)
    low, high = 0.3, 4.0
    vjp = staticmethod(lambda g, y, x: (g * digamma(x),))
    onnx = "kernel"


class Digamma(TableFunction):
    """The derivative of lgamma.

    >>> ex.digamma(ex.tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """

    numpy = staticmethod(kernels.digamma)
    low, high = 0.3, 4.0
    vjp = staticmethod(lambda g, y, x: (g * apply(Polygamma, (1, x)),))


class Polygamma(Elementwise):
    """The n-th derivative of digamma."""

    to_float = True
    numpy = staticmethod(lambda n, x: kernels.polygamma(int(n), x))
    vjp = staticmethod(lambda g, y, n, x: (None, g * apply(Polygamma, (n + 1, x))))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1, rng.uniform(0.3, 4.0, size=(3, 4)))
        yield Sample(3, rng.uniform(0.3, 4.0, size=()))
        yield Sample(2, np.empty((0, 3)))

    lower = TABLES


def _no_gradient(op: str, what: str) -> Callable[[], NoReturn]:
    """A thunk in place of a gradient: it raises if that gradient is asked for, and only then."""

    def refuse() -> NoReturn:
        raise NotDifferentiableError(f"{op}: no gradient with respect to {what}; detach() it if none is wanted")

    return refuse


def _gamma_density(a: Tensor | Number, x: Tensor) -> Tensor:
    """d igamma(a, x) / dx."""
    # Of a number, a number as wide: a tensor would have the default dtype, whatever x has.
    scale = lgamma(a) if isinstance(a, Tensor) else Lgamma.numpy(a).item()
    return ops.exp((a - 1.0) * ops.log(x) - x - scale)


_MOST_TERMS = 2000  # of the loops below; 100 are many for arguments below 1000


def _incomplete_gamma(flow: Any, a: Any, x: Any, upper: bool) -> Tensor:
    """Both functions in other ops, in float64: a power series below a + 1, a continued fraction beyond.

    They are those of `backends.numpy.special`, without its expansions for arguments in the thousands.
    """
    a, x = ops.broadcast_tensors(
        *(t.double() if isinstance(t, Tensor) else ops.tensor(float(t)).double() for t in (a, x))
    )
    inside = ops.logical_and(ops.logical_and(a > 0.0, x > 0.0), ops.logical_and(ops.isfinite(a), ops.isfinite(x)))
    safe_a, safe_x = ops.where(inside, a, 1.0), ops.where(inside, x, 1.0)
    density = ops.exp(safe_a * ops.log(safe_x) - safe_x - lgamma(safe_a + 1.0))
    by_series = safe_x < safe_a + 1.0

    def add_term(n: Tensor, term: Tensor, total: Tensor) -> tuple[Tensor, ...]:
        term = ops.where(by_series, term * safe_x / (safe_a + n), 0.0)
        return n + 1.0, term, total + term

    def add_convergent(n: Tensor, b: Tensor, d: Tensor, step: Tensor, fraction: Tensor) -> tuple[Tensor, ...]:
        b = b + 2.0
        d = 1.0 / (b + n * (safe_a - n) * d)
        step = ops.where(by_series, 0.0, step * (b * d - 1.0))
        return n + 1.0, b, d, step, fraction + step

    def goes_on(n: Tensor, *state: Tensor) -> Tensor:
        return ops.logical_and((ops.abs(state[-2]) > 1e-17 * ops.abs(state[-1])).any(), n < float(_MOST_TERMS))

    one, first = ops.ones_like(x), ops.tensor(1.0).double()
    series = flow.while_loop(goes_on, add_term, (first, one, one))[-1] * density
    start = ops.where(by_series, 1.0, safe_x + 1.0 - safe_a)
    fraction = flow.while_loop(goes_on, add_convergent, (first, start, *(1.0 / start,) * 3))[-1] * density * safe_a
    low = ops.where(by_series, ops.minimum(series, 1.0), 1.0 - fraction)
    high = ops.where(by_series, 1.0 - series, fraction)
    # At the borders, where NumPy's kernel says what PyTorch does.
    full = ops.logical_or(
        ops.logical_and(ops.eq(a, 0.0), x > 0.0),
        ops.logical_and(ops.eq(x, math.inf), ops.logical_and(ops.logical_not(a <= 0.0), ops.ne(a, math.inf))),
    )
    none = ops.logical_or(
        ops.logical_and(ops.eq(x, 0.0), ops.logical_not(a <= 0.0)),
        ops.logical_and(ops.eq(a, math.inf), ops.logical_and(ops.logical_not(x <= 0.0), ops.ne(x, math.inf))),
    )
    found = ops.where(inside, high if upper else low, math.nan)
    return ops.where(full, 0.0 if upper else 1.0, ops.where(none, 1.0 if upper else 0.0, found))


class _IncompleteGamma(Elementwise, abstract=True):
    """A function of the shape `input` and the point `other`; differentiable in the point."""

    domain = "f"
    saves = ("", "a x")

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1.5, rng.uniform(0.4, 3.0, size=(3, 4)))
        yield Sample(np.array([[1], [2], [4]]), rng.uniform(0.4, 3.0, size=(2, 1, 4)))
        yield Sample(2.0, np.empty((0, 3)))

    lower = TABLES


class Igamma(_IncompleteGamma):
    """The regularised lower incomplete gamma function P(input, other).

    >>> ex.igamma(ex.tensor([1.0, 2.0]), ex.tensor([1.0, 1.0]))
    tensor([0.6321, 0.2642])
    """

    numpy = staticmethod(kernels.gammainc)

    @staticmethod
    def vjp(g: Tensor, y: Any, a: Tensor, x: Tensor) -> tuple[Any, ...]:
        return _no_gradient("igamma", "its first argument"), lambda: g * _gamma_density(a, x)

    onnx = Decomposed(lambda flow, a, x: _incomplete_gamma(flow, a, x, upper=False))


class Igammac(_IncompleteGamma):
    """The regularised upper incomplete gamma function Q(input, other) = 1 - P(input, other).

    >>> ex.igammac(ex.tensor([1.0, 2.0]), ex.tensor([1.0, 1.0]))
    tensor([0.3679, 0.7358])
    """

    numpy = staticmethod(kernels.gammaincc)

    @staticmethod
    def vjp(g: Tensor, y: Any, a: Tensor, x: Tensor) -> tuple[Any, ...]:
        return _no_gradient("igammac", "its first argument"), lambda: -g * _gamma_density(a, x)

    onnx = Decomposed(lambda flow, a, x: _incomplete_gamma(flow, a, x, upper=True))


class Zeta(Elementwise):
    """The Hurwitz zeta function: the sum over k >= 0 of 1 / (k + other) ** input.

    >>> ex.special.zeta(ex.tensor([2.0, 4.0]), 1.0)
    tensor([1.6449, 1.0823])
    """

    name = "special_zeta"
    to_float = True
    saves = ("", "x q")
    numpy = staticmethod(kernels.zeta)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Tensor, q: Tensor) -> tuple[Any, ...]:
        return _no_gradient("special.zeta", "its exponent"), lambda: g * -x * zeta(x + 1.0, q)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(2.0, rng.uniform(0.5, 3.0, size=(3, 4)))
        yield Sample(np.array([[2], [3], [5]]), rng.uniform(0.5, 3.0, size=(2, 1, 4)))
        yield Sample(2.5, np.empty((0, 3)))

    lower = TABLES


lgamma = unary(Lgamma)
digamma: Function = unary(Digamma)
igamma, igammac = binary(Igamma), binary(Igammac)
zeta = of_two(Zeta)


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma.

    >>> ex.polygamma(1, ex.tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """
    if n < 0:
        raise DtypeError(f"polygamma: n counts derivatives and must not be negative, got {n}")
    return deliver_converted(apply(Polygamma, (n, input)), out, input)


def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma at each element."""
    return polygamma(n, self)


method(_polygamma_method, "polygamma")
inplace_method("polygamma_", _polygamma_method)


@method
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension `p`.

    >>> ex.mvlgamma(ex.tensor([2.0, 3.0]), p=2)
    tensor([0.4516, 1.5502])
    """
    if p < 1:
        raise ShapeError(f"mvlgamma: p is a dimension and must be at least 1, got {p}")
    result: Tensor | Number = p * (p - 1) / 4 * math.log(math.pi)
    for j in range(p):
        result = result + lgamma(input - j / 2)
    return deliver_converted(result, out, input)


inplace_method("mvlgamma_", mvlgamma)
