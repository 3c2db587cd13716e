"""Draws are pure functions of seed, draw number and place."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, NumericalError

FLOATING = (ex.float16, ex.bfloat16, ex.float32, ex.float64)
N = 20_000


@pytest.fixture(autouse=True)
def _seeded():
    ex.manual_seed(0)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_uniform_numbers_stay_inside_their_interval(dtype):
    for low, high in [(0, 1), (-3.0, 2.5), (1e-3, 2e-3), (5.0, 5.0)]:
        drawn = ex.empty(N, dtype=dtype).uniform_(low, high).double()
        assert drawn.min().item() >= ex.tensor(low, dtype=dtype).item()
        assert drawn.max().item() < high or low == high
    assert abs(ex.rand(N, dtype=dtype).double().mean().item() - 0.5) < 0.02


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_the_moments_are_those_of_the_distribution(dtype):
    drawn = {
        "normal": (ex.empty(N, dtype=dtype).normal_(1.0, 2.0), 1.0, 2.0),
        "exponential": (ex.empty(N, dtype=dtype).exponential_(0.5), 2.0, 2.0),
        "geometric": (ex.empty(N, dtype=dtype).geometric_(0.5), 2.0, math.sqrt(2.0)),
        "bernoulli": (ex.empty(N, dtype=dtype).bernoulli_(0.3), 0.3, math.sqrt(0.21)),
        "poisson": (ex.poisson(ex.full((N,), 4.0, dtype=dtype)), 4.0, 2.0),
        "log normal": (ex.empty(N, dtype=dtype).log_normal_(0.0, 0.5), math.exp(0.125), 0.604),
    }
    for name, (values, mean, std) in drawn.items():
        assert values.dtype is dtype
        array = values.double().numpy()
        assert abs(array.mean() - mean) < 0.05 * (1 + abs(mean)), name
        assert abs(array.std() - std) < 0.07 * (1 + std), name


def test_cauchy_has_its_median_and_quartiles():
    array = ex.empty(N).cauchy_(1.0, 2.0).numpy()
    np.testing.assert_allclose(np.quantile(array, [0.25, 0.5, 0.75]), [-1, 1, 3], atol=0.15)


@pytest.mark.parametrize(
    "draw",
    [lambda x: ex.bernoulli(x), lambda x: ex.poisson(x), lambda x: ex.normal(x, 1.0), lambda x: (x * 1).uniform_()],
    ids=["bernoulli", "poisson", "normal", "uniform_"],
)
def test_a_draw_of_a_tracked_tensor_has_gradient_zero(draw):
    x = ex.full((3,), 0.5, requires_grad=True)
    y = draw(x)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_bernoulli_is_exact_at_zero_and_one_and_refuses_other_numbers():
    assert ex.bernoulli(ex.tensor([0.0, 1.0])).tolist() == [0, 1]
    assert ex.zeros(3, dtype=ex.int64).bernoulli_(1.0).tolist() == [1, 1, 1]
    assert ex.zeros(2, 2).bernoulli_(ex.tensor([0.0, 1.0])).tolist() == [[0, 1], [0, 1]]
    assert ex.bernoulli(ex.zeros(2), 1.0).tolist() == [1, 1]
    for p in (1.5, -0.1, float("nan")):
        with pytest.raises(NumericalError, match="between 0 and 1"):
            ex.bernoulli(ex.tensor([p]))
        with pytest.raises(NumericalError, match="between 0 and 1"):
            ex.zeros(2).bernoulli_(p)
    with pytest.raises(DtypeError, match="floating probabilities"):
        ex.bernoulli(ex.tensor([1]))
