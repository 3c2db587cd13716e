"""Checks for nan in native code: whatever is nan is found, wherever it stands, and nothing else."""

from __future__ import annotations

import inspect
import itertools
from contextlib import nullcontext

import numpy as np
import pytest

import extempo as ex
from extempo.backends.llvm.calls.nan_checks import BY_FLAG
from extempo.backends.llvm.plans import runtime
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.dispatch.dispatcher import apply
from extempo.inspect import checking
from extempo.nn import functional as F

pytestmark = pytest.mark.skipif(native() is None, reason="there is no native code")


@pytest.fixture
def found(monkeypatch):
    """The ops that native code has told of, and nothing raised."""
    told = []
    monkeypatch.setattr(checking, "stop_if_made", lambda op, inputs, results, *_: told.append(op.name))
    with ex.inspect.guard():
        yield told


@pytest.mark.parametrize("d", [ex.float16, ex.float32, ex.float64])
@pytest.mark.parametrize("n", [1, 7, 8, 31, 32, 33, 70])
def test_a_nan_is_found_wherever_it_stands(found, d, n):
    largest = float(np.finfo(d.numpy).max)
    fine = ex.tensor([largest, -largest, float("inf"), float("-inf"), 0.0] * n, dtype=d)[:n]
    for _ in range(3):
        fine * 1.0
    found.clear()
    fine * 1.0
    assert found.count("mul") <= (d is ex.float16)  # of halves Python looks, too
    for i in range(n):
        for sign in (1.0, -1.0):
            x = fine.clone()
            x[i] = sign * float("nan")
            found.clear()
            x * 1.0
            assert "mul" in found


@pytest.mark.parametrize("n_threads", [1, 2])
def test_of_a_large_result_of_arithmetic_too(n_threads):
    before = ex.get_num_threads()
    ex.set_num_threads(n_threads)
    try:
        x = ex.zeros(1 << 18)
        x * x
        x / (x + 1)
        x[-1] = float("inf")
        with ex.inspect.guard():
            x * x
            x / 2
            with pytest.raises(ex.errors.NonFiniteError, match="sub"):
                x - x
            x + x
            with pytest.raises(ex.errors.NonFiniteError, match="mul"):
                x * 0
    finally:
        ex.set_num_threads(before)


_EXTREMES = [np.inf, -np.inf, 0.0, -0.0, 1e-45, 1.0, -1.0, 90.0, -90.0, 3e4, -3e4, 3e38, -3e38, 1e300, -1e300]


@pytest.mark.parametrize("d", [ex.float32, ex.float64])
@pytest.mark.parametrize("name", [name for name in BY_FLAG if name not in ("standardize", "layer_norm", "softmax")])
def test_the_flag_knows_of_every_nan_that_such_an_op_makes(name, d):
    op = REGISTRY[name]
    with np.errstate(over="ignore"):
        extremes = [float(x) for x in np.array(_EXTREMES, d.numpy)]
    n_operands = len([p for p in inspect.signature(op.numpy).parameters.values() if p.default is p.empty])
    n_made = 0
    for values in itertools.product(extremes, repeat=n_operands):
        operands = []
        for value in values:  # at one place among many that are fine
            x = ex.full((1 << 14,), 0.5, dtype=d)
            x[12345] = value
            operands.append(x)
        is_nan = apply(op, tuple(operands), {}).isnan().any()
        n_made += bool(is_nan)
        with pytest.raises(ex.errors.NonFiniteError) if is_nan else nullcontext(), ex.inspect.guard():
            apply(op, tuple(operands), {})
    assert n_made or name in ("neg", "abs", "relu", "exp", "tanh", "sigmoid")


def test_what_leaves_a_plan_is_counted():
    _, counts = runtime.checked_run()

    @ex.compile
    def root(x):
        return x.sqrt() * 2

    for _ in range(6):
        root(ex.ones(5))
    with checking.paused(), ex.inspect.guard():
        counts.begin()
        root(ex.ones(5)).tolist()
        assert counts.n_with_nan == 0


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda x: x - x, id="sub"),
        pytest.param(lambda x: x * 0, id="mul"),
        pytest.param(lambda x: x + -x, id="add"),
        pytest.param(lambda x: x / x, id="div"),
        pytest.param(lambda x: F.gelu(-x), id="gelu"),
        pytest.param(lambda x: F.gelu(-x, approximate="tanh"), id="gelu by tanh"),
        pytest.param(lambda x: F.softmax(x, -1), id="softmax"),
        pytest.param(lambda x: F.layer_norm(x, (512,)), id="layer_norm"),
    ],
)
@pytest.mark.parametrize("place", [0, 77_777, 131_071])
def test_the_flag_misses_no_nan_that_is_made(make, place):
    fine, bad = ex.ones(256, 512), ex.ones(256, 512)
    bad.view(-1)[place] = float("inf")
    if not make(bad).isnan().any():
        pytest.skip("this kernel makes no nan of an infinity")
    with ex.inspect.guard():
        make(fine)
        with pytest.raises(ex.errors.NonFiniteError):
            make(bad)
