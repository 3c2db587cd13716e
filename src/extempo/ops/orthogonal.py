"""Orthogonal polynomials at each element, by `backends.numpy.orthogonal`. PyTorch has them in `special` only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..backends.numpy import orthogonal
from ..core.op import Elementwise, Refuse, Rng, Sample
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
    onnx = "kernel"


def _polynomial(kernel: Callable[..., Any]) -> Callable[..., Tensor]:
    """The op and the function of one family of polynomials."""
    name = kernel.__name__
    aspects = {"__doc__": kernel.__doc__, "__module__": __name__, "name": f"special_{name}"}
    op = type("".join(map(str.title, name.split("_"))), (_Polynomial,), aspects | {"numpy": staticmethod(kernel)})
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
