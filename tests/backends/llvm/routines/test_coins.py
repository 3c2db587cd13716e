"""Coins with a probability of their own: the bits of NumPy's, and the error of a probability that is none."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.core.op import REGISTRY
from extempo.errors import NumericalError

from ..guarded import call
from .oracle import FLOATS


@pytest.mark.parametrize("dtype", FLOATS)
def test_coins_fall_as_numpys_do(dtype):
    rng = np.random.default_rng(0)
    for n in (1, 7, 8, 31, 32, 33, 100, 70_000):
        p = rng.uniform(size=n).astype(dtype)
        p[: n // 4] = rng.integers(0, 2, n // 4)  # 0 and 1 are certain
        for seed, draw in ((1, 2), (2**40 + 3, 2**33)):
            (found,) = call("bernoulli", p, seed, draw)
            np.testing.assert_array_equal(found, REGISTRY["bernoulli"].numpy(p, seed, draw))
    assert 0.48 < found[n // 4 :].mean() < 0.52


def test_a_probability_that_is_none_is_an_error_wherever_it_stands():
    for place in (0, 31, 33, 39):
        for wrong in (-0.1, 1.5, np.nan, np.inf):
            p = ex.full((40,), 0.5)
            p[place] = wrong
            with pytest.raises(NumericalError, match="between 0 and 1"):
                ex.bernoulli(p)


def test_compiled_and_threaded_coins_fall_as_eager_ones():
    p, n_threads, found = ex.linspace(0, 1, 300_000), ex.get_num_threads(), []
    compiled = ex.compile(lambda p: ex.bernoulli(p))
    try:
        for n in (1, 2):
            ex.set_num_threads(n)
            for draw in (ex.bernoulli, compiled, compiled):
                ex.manual_seed(3)
                found.append(draw(p))
    finally:
        ex.set_num_threads(n_threads)
    assert all(ex.equal(one, found[0]) for one in found)


def test_coins_of_any_seed_are_native():
    if ex.backends.stats()["backend"] != "native":
        pytest.skip("the native backend does not run here")
    p, before = ex.rand(40), ex.backends.stats()["fallbacks"].get("bernoulli", 0)
    for seed in (3, 2**63 + 5, 2**64 - 1):
        found = ex.bernoulli(p, generator=ex.Generator().manual_seed(seed))
        np.testing.assert_array_equal(found.numpy(), REGISTRY["bernoulli"].numpy(p.numpy(), seed, 0))
    assert ex.backends.stats()["fallbacks"].get("bernoulli", 0) == before
