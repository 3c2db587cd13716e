"""Special functions by their NumPy kernels: all regions at once, in float64, and chosen element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import REGISTRY, Elementwise, Refuse
from extempo.dispatch.dispatcher import apply

from .agreement import Exported

BY_KERNEL = sorted(name for name, op in REGISTRY.items() if op.onnx == "kernel")
POINTS = [-30.0, -7.3, -2.5, -1.0, -0.4, 0.0, 1e-3, 0.3, 0.95, 1.7, 3.0, 8.5, 25.0, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("name", [n for n in BY_KERNEL if n not in ("polygamma", "special_zeta", "special_xlog1py")])
def test_every_region_of_a_function_agrees(name):
    fn = getattr(ex.special, name.removeprefix("special_"), None) or getattr(ex, name)
    x = ex.tensor(POINTS, dtype=ex.float64)
    ours = fn(x).numpy()
    theirs = Exported(ex.program(fn, x, check=False)).run(x)[0]
    np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-12)


def test_functions_of_two_and_of_an_order():
    x = ex.tensor([0.4, 1.5, 7.0], dtype=ex.float64)
    for fn in (lambda x: ex.polygamma(0, x), lambda x: ex.polygamma(3, x), lambda x: ex.special.zeta(x + 1.0, x)):
        np.testing.assert_allclose(Exported(ex.program(fn, x, check=False)).run(x)[0], fn(x).numpy(), rtol=1e-10)


def test_incomplete_gamma_functions_are_loops_that_end_when_all_elements_are_exact():
    a, x = (t.flatten() for t in ex.meshgrid(ex.tensor([0.1, 1.0, 7.0, 60.0]), ex.tensor([0.0, 0.2, 5.0, 80.0])))
    for fn in (ex.special.gammainc, ex.special.gammaincc):
        exported = Exported(ex.program(fn, (a, x), check=False))
        assert "Loop" in exported.kinds()
        exported.agree(a, x, rtol=1e-5, atol=1e-6)


@pytest.fixture
def define():
    """Defines elementwise ops that are forgotten after the test."""
    before = set(REGISTRY)

    def defined(name, kernel):
        aspects = {
            "numpy": staticmethod(kernel),
            "vjp": Refuse("a test"),
            "samples": Refuse("a test"),
            "to_float": True,
        }
        return type(name, (Elementwise,), aspects)

    yield defined
    for name in set(REGISTRY) - before:
        del REGISTRY[name]


def test_an_op_that_has_nothing_but_a_kernel_has_a_form(define):
    op = define("LogCosh", lambda x: np.logaddexp(x, -x) - x.dtype.type(math.log(2.0)))
    x = ex.tensor([-800.0, -1.0, 0.0, 2.0])
    Exported(ex.program(lambda x: apply(op, (x,)), x)).agree(x)


def test_a_kernel_that_does_more_than_symbols_can_is_an_error_that_says_so(define):
    op = define("Looped", lambda x: np.array([math.sin(v) for v in x.tolist()], x.dtype))
    program = ex.program(lambda x: apply(op, (x,)), ex.ones(3))
    with pytest.raises(ex.errors.ExportError, match="looped has no ONNX form here: its NumPy kernel does"):
        Exported(program)
