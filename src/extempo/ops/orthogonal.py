"""Orthogonal polynomials at each element, by `backends.numpy.orthogonal`. PyTorch has them in `special` only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import ops
from ..backends.numpy import orthogonal
from ..core.op import Decomposed, Elementwise, Refuse, Rng, Sample
from ..core.tensor import Tensor
from ..dispatch.fast_path import runner2
from .define import Operand, deliver_converted, numpy_names
from .special_define import TABLES, named

__all__: list[str] = []


class _Polynomial(Elementwise, abstract=True):
    """A polynomial at `input` whose degree is `n`."""

    to_float = True
    vjp = Refuse("these polynomials are evaluated only, as in PyTorch")

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.uniform(-1.0, 1.0, size=(3, 4)), rng.integers(0, 6, size=(4,)).astype(float))
        yield Sample(rng.uniform(-1.0, 1.0, size=(3,)), 4)
        yield Sample(0.5, rng.integers(0, 6, size=()).astype(float))
        yield Sample(np.empty((0, 3)), 2)

    lower = TABLES


# Of each family the polynomial of degree 1, and the next one from the last two (DLMF 18.9), for exports.
_FIRST: dict[str, Any] = {
    "chebyshev_polynomial_t": lambda x: x,
    "chebyshev_polynomial_u": lambda x: x + x,
    "chebyshev_polynomial_v": lambda x: x + x - 1.0,
    "chebyshev_polynomial_w": lambda x: x + x + 1.0,
    "hermite_polynomial_h": lambda x: x + x,
    "hermite_polynomial_he": lambda x: x,
    "laguerre_polynomial_l": lambda x: 1.0 - x,
    "legendre_polynomial_p": lambda x: x,
}
_NEXT: dict[str, Any] = {
    "hermite_polynomial_h": lambda x, now, before, k: (x + x) * now - 2.0 * k * before,
    "hermite_polynomial_he": lambda x, now, before, k: x * now - k * before,
    "laguerre_polynomial_l": lambda x, now, before, k: ((2.0 * k + 1.0 - x) * now - k * before) / (k + 1.0),
    "legendre_polynomial_p": lambda x, now, before, k: ((2.0 * k + 1.0) * x * now - k * before) / (k + 1.0),
}


def _evaluated(flow: Any, name: str, x: Any, n: Any) -> Tensor:
    """The polynomial in other ops, in float64, by a loop up to the highest degree."""
    x, n = ops.broadcast_tensors(
        *(t.double() if isinstance(t, Tensor) else ops.tensor(float(t)).double() for t in (x, n))
    )
    kind = name.removeprefix("shifted_")
    x = x if kind == name else x + x - 1.0
    degree = ops.where(ops.isfinite(n), ops.trunc(n), -1.0)
    first = _FIRST[kind](x)
    advance = _NEXT.get(kind, lambda x, now, before, k: (x + x) * now - before)

    def step(k: Tensor, now: Tensor, before: Tensor, result: Tensor) -> tuple[Tensor, ...]:
        after = advance(x, now, before, k)
        return k + 1.0, after, now, ops.where(degree > k, after, result)

    result = ops.where(degree < 0.0, 0.0, ops.where(ops.eq(degree, 0.0), 1.0, first))
    start = (ops.tensor(1.0).double(), first, ops.ones_like(first), result)
    found: Tensor = flow.while_loop(lambda k, *rest: (degree > k).any(), step, start)[3]
    return ops.where(degree > 512.0, math.nan, found) if "hermite" in kind else found


def _polynomial(kernel: Callable[..., Any]) -> Callable[..., Tensor]:
    """The op and the function of one family of polynomials."""
    name = kernel.__name__
    aspects: dict[str, Any] = {"__doc__": kernel.__doc__, "__module__": __name__, "name": f"special_{name}"}
    aspects |= {"numpy": staticmethod(kernel), "onnx": Decomposed(lambda flow, x, n: _evaluated(flow, name, x, n))}
    op = type("".join(map(str.title, name.split("_"))), (_Polynomial,), aspects)
    run = runner2(op)

    def fn(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
        return run(input, n) if out is None else deliver_converted(run(input, n), out, input, n)

    return numpy_names(named(fn, name, kernel.__doc__))


chebyshev_polynomial_t = _polynomial(orthogonal.chebyshev_polynomial_t)
chebyshev_polynomial_u = _polynomial(orthogonal.chebyshev_polynomial_u)
chebyshev_polynomial_v = _polynomial(orthogonal.chebyshev_polynomial_v)
chebyshev_polynomial_w = _polynomial(orthogonal.chebyshev_polynomial_w)
shifted_chebyshev_polynomial_t = _polynomial(orthogonal.shifted_chebyshev_polynomial_t)
shifted_chebyshev_polynomial_u = _polynomial(orthogonal.shifted_chebyshev_polynomial_u)
shifted_chebyshev_polynomial_v = _polynomial(orthogonal.shifted_chebyshev_polynomial_v)
shifted_chebyshev_polynomial_w = _polynomial(orthogonal.shifted_chebyshev_polynomial_w)
hermite_polynomial_h = _polynomial(orthogonal.hermite_polynomial_h)
hermite_polynomial_he = _polynomial(orthogonal.hermite_polynomial_he)
laguerre_polynomial_l = _polynomial(orthogonal.laguerre_polynomial_l)
legendre_polynomial_p = _polynomial(orthogonal.legendre_polynomial_p)
