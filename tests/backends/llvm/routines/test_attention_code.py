"""The code of attention: strips of scores become weights, and gradients of weights those of scores."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir.types import f32, f64, ptr, void
from extempo.backends.llvm.routines.attention_code import STRIP_ARGS, write_softmax, write_softmax_gradient
from extempo.backends.llvm.routines.gemm import gemm_of

from ..written import address, inner

TYPES = {np.float32: f32, np.float64: f64}
WIDTH = 48  # of a row of scratch memory: whole vectors beyond the last score


def softmax(x):
    with np.errstate(invalid="ignore"):
        weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def run(write, dtype, *strips, n, growth=0, n_keys=None, **names):
    t = gemm_of(TYPES[dtype]).t
    function = inner(lambda m: write(m, "strip", t), "strip", void, **names, **STRIP_ARGS)
    row = strips[0].strides[0]
    function(*map(address, strips), len(strips[0]), n, growth, n_keys or n, WIDTH, row)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 7, 8, 9, 33])
def test_scores_become_weights_and_zeros_up_to_the_end(n, dtype):
    scores = np.random.default_rng(n).normal(size=(5, WIDTH)).astype(dtype) * 5
    weights = scores.copy()
    run(write_softmax, dtype, weights, n=n, x=ptr)
    np.testing.assert_allclose(
        weights[:, :n], softmax(scores[:, :n].astype("d")), rtol=2e-6 if dtype is np.float32 else 1e-13
    )
    assert not weights[:, n:].any()


def test_rows_may_see_one_key_more_each_but_no_more_than_there_are():
    scores = np.random.default_rng(0).normal(size=(6, WIDTH)).astype(np.float32)
    weights = scores.copy()
    run(write_softmax, np.float32, weights, n=3, growth=1, n_keys=6, x=ptr)
    for r, n in enumerate((3, 4, 5, 6, 6, 6)):
        np.testing.assert_allclose(weights[r, :n], softmax(scores[r, :n]), rtol=2e-6)
        assert not weights[r, n:].any()


def test_infinite_scores_are_masks_and_a_row_of_them_has_no_weights():
    scores = np.zeros((3, WIDTH), np.float32)
    scores[0, :4] = -np.inf
    scores[1, :9] = -np.inf
    scores[2, 2] = np.nan
    run(write_softmax, np.float32, scores, n=9, x=ptr)
    np.testing.assert_allclose(scores[0, :9], [0] * 4 + [0.2] * 5, rtol=1e-6)
    assert not scores[1].any()
    assert np.isnan(scores[2, :9]).any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 7, 8, 9, 33])
def test_gradients_of_weights_become_those_of_scores(n, dtype):
    rng = np.random.default_rng(n)
    p = np.zeros((4, WIDTH), dtype)
    p[:, :n] = softmax(rng.normal(size=(4, n)))
    g = rng.normal(size=(4, WIDTH)).astype(dtype)
    before = g[:, :n].astype("d")
    g[:, n:] = 0.0  # weights there are zeros, and their gradients are those of scores that do not exist
    run(write_softmax_gradient, dtype, p, g, n=n, p=ptr, g=ptr)
    expected = p[:, :n] * (before - (p[:, :n] * before).sum(-1, keepdims=True))
    np.testing.assert_allclose(g[:, :n], expected, rtol=1e-5, atol=1e-6)
    assert not g[:, n:].any()
