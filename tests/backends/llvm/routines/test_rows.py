"""Native softmaxes, norms and losses against the NumPy kernels of their ops, with guards around what is written."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.ir.builder import Pointer, f32, i64, ptr
from extempo.backends.llvm.routines import rows
from extempo.backends.llvm.routines.routine import build
from extempo.ops import softmaxes

from ..guarded import bind, call, run_address
from .oracle import FLOATS, LAYOUTS, check, draw, exact

F = ex.nn.functional  # loads the ops that it is made of


# ---- softmaxes


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_softmaxes_and_their_gradients_in_every_layout(shape, dim, dtype):
    x, g = draw(shape, dtype) * 3, draw(shape, dtype, 1)
    (y,) = check("softmax", x, dim=dim)
    check("softmax_backward", g, y, dim=dim)
    (y,) = check("log_softmax", x, dim=dim)
    check("log_softmax_backward", g, y, dim=dim, near=10)
    (y,) = check("logsumexp", x, dim=(dim,), keepdim=False)
    check("logsumexp_backward", draw(y.shape, dtype, 2), y, x, dim=(dim,))


def test_logsumexp_over_several_dimensions():
    x = draw((3, 4, 5, 6))
    for dim in ((0, 1, 2, 3), (2, 3), (0, 1), (1, 2), (0, 2, 3)):
        (y,) = check("logsumexp", x, dim=dim, keepdim=True)
        check("logsumexp_backward", draw(y.shape, seed=2), y, x, dim=dim)
    assert bind("logsumexp", (x,), {"dim": (0, 2), "keepdim": True}) is None


def test_softmax_sums_to_one_and_never_overflows():
    for scale in (1.0, 100.0, 1e30):
        x = draw((50, 1000)) * np.float32(scale)
        (y,) = call("softmax", x, dim=1)
        np.testing.assert_allclose(y.sum(1, dtype=np.float64), 1.0, rtol=1e-6)
        assert (y >= 0).all()


@pytest.mark.parametrize("n", [3, 8, 13, 40])
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_infinities_and_nan_in_softmaxes(special, n):
    for whole in (False, True):
        x = draw((3, n))
        x[1, n // 2] = special
        if whole:
            x[1] = special
        for dim, array in ((1, x), (0, x.T.copy())):
            for op in ("softmax", "log_softmax"):
                (y,) = call(op, array, dim=dim)
                np.testing.assert_allclose(y, exact(op, array, dim=dim)[0], rtol=1e-5, atol=1e-30)
            (y,) = call("logsumexp", array, dim=(dim,), keepdim=False)
            np.testing.assert_allclose(y, exact("logsumexp", array, dim=(dim,), keepdim=False)[0], rtol=1e-5)


def test_logsumexp_of_infinity_and_nan_is_nan():
    (y,) = call("logsumexp", np.array([np.inf, np.nan, 1.0], np.float32), dim=(0,), keepdim=False)
    assert np.isnan(y)


def test_exp_below_zero_is_within_an_ulp_and_a_half_down_to_denormals():
    def write(module, name):
        with module.function(name, i64, buffers=ptr, meta=ptr) as b:
            buffers, n = Pointer(b.arg("buffers"), ptr), Pointer(b.arg("meta"), i64)[0]
            with b.loop(0, n, 8) as i:
                x = Pointer(buffers[0], f32).vector(i, 8)
                Pointer(buffers[1], f32).set_vector(i, rows.exp_below_zero(b, x))
            b.ret(0)

    x = -np.concatenate([np.linspace(0, 110, 1 << 19), np.logspace(-12, 2, 1 << 16), [0, np.inf, np.nan, 1e38] * 2])
    x = x.astype(np.float32)
    y = np.empty_like(x)
    run_address(build("exp_below_zero_test", write), [x, y], [x.size])
    expected = np.exp(x.astype(np.float64))
    ulp = np.spacing(np.maximum(expected, 2.0**-126).astype(np.float32)).astype(np.float64)
    assert np.nanmax(np.abs(y - expected) / ulp) < 1.5
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    assert y[0] == 1.0


def test_large_slices_are_split_by_size_alone():
    x = draw((7 * rows.WITH_EXP // 1000, 1000))
    (y,) = check("softmax", x, dim=1)
    np.testing.assert_array_equal(call("softmax", x[5:6], dim=1)[0], y[5:6])


def test_a_wide_row_is_summed_accurately():
    check("softmax", draw((2, 100_000)), dim=1, near=0.5)


def test_gradients_of_ops_are_the_gradients_of_functions():
    """The whole way, through the engine: every native gradient against finite differences, to second order."""
    rng = np.random.default_rng(0)
    x, w, c = (ex.tensor(rng.normal(size=s)) for s in ((3, 9), (9,), (9,)))
    target = ex.tensor([1, 8, 3])
    ex.testing.check_grad(lambda x: softmaxes.softmax(x, 1), [x])
    ex.testing.check_grad(lambda x: softmaxes.log_softmax(x, 1), [x])
    ex.testing.check_grad(lambda x: softmaxes.logsumexp(x, 1), [x])
    ex.testing.check_grad(lambda x, w, c: F.layer_norm(x, (9,), w, c), [x, w, c])
    ex.testing.check_grad(lambda x, w: F.rms_norm(x, (9,), w, 0.1), [x, w])
    ex.testing.check_grad(lambda x, w, c: F.batch_norm(x, None, None, w, c, training=True), [x, w, c])
    ex.testing.check_grad(lambda x: F.cross_entropy(x, target), [x])
