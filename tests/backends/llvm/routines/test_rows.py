"""Native softmaxes, norms and losses against the NumPy kernels of their ops, with guards around what is written."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.ir.builder import Pointer, f32, i64, ptr
from extempo.backends.llvm.routines import row_losses, rows, standardize
from extempo.backends.llvm.routines.routine import build
from extempo.core.op import REGISTRY
from extempo.ops import class_loss_ops, softmaxes

from ..guarded import bind, call, run_address

F = ex.nn.functional  # loads the ops that it is made of
FLOATS = [np.float32, np.float64]
NEAR = {np.float32: 3e-6, np.float64: 1e-13}
# (outer, n, inner) as shapes and dimensions: rows, columns, both with every kind of tail.
LAYOUTS = [
    *[((3, n), 1) for n in (*range(1, 20), 63, 64, 65, 127, 129, 300)],
    *[((n, k), 0) for n in (2, 5, 70) for k in (2, 7, 8, 9, 33, 70)],
    ((2, 5, 3), 1),
    ((3, 70, 65), 1),
    ((7,), 0),
]


def draw(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def exact(op, *inputs, **attrs):
    """The op's NumPy kernel in float64."""
    wide = [x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in inputs]
    with np.errstate(all="ignore"):
        y = REGISTRY[op].numpy(*wide, **attrs)
    return y if type(y) is tuple else (y,)


def check(op, *inputs, near=1.0, **attrs):
    dtype = next(x.dtype.type for x in inputs if isinstance(x, np.ndarray) and x.dtype.kind == "f")
    assert REGISTRY[op].lower.name == op
    got, expected = call(op, *inputs, **attrs), exact(op, *inputs, **attrs)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert g.shape == e.shape
        np.testing.assert_allclose(g, e, rtol=near * NEAR[dtype], atol=near * NEAR[dtype], err_msg=op)
    return got


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
    def write(module):
        with module.function("exp_below_zero_test", i64, buffers=ptr, meta=ptr) as b:
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


# ---- norms

NORMS = [  # shape, dims, shape of the weights
    *[((5, n), (1,), (n,)) for n in (*range(1, 20), 64, 70, 1000)],
    ((7, 4, 33), (1, 2), (4, 33)),
    ((130, 9), (1,), (9,)),
    ((70, 33), (0,), (33,)),
    ((2, 8), (0,), (8,)),
    ((3, 70, 5), (0, 2), (70, 1)),
    ((10, 3, 4, 10), (0, 2, 3), (3, 1, 1)),
    ((4, 3, 1), (0, 2), (3, 1)),
]
GROUPS = [  # rows with a weight for each stretch: group norm, instance norm, one channel
    ((5, 2, 3, 7), (2, 3), (2, 3, 1)),
    ((3, 4, 2, 16), (2, 3), (4, 2, 1)),
    ((70, 1, 3, 9), (2, 3), (1, 3, 1)),
    ((3, 4, 5, 6), (2, 3), (4, 1, 1)),
    ((3, 4, 20), (1, 2), (4, 1)),
    ((3, 1, 20), (2,), (1, 1)),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("shape", "dims", "weights"), NORMS)
def test_standardize_and_its_gradients_in_every_layout(shape, dims, weights, centred, dtype):
    x, g = draw(shape, dtype) + 2, draw(shape, dtype, 1)
    given = draw(weights, dtype, 2), draw(weights, dtype, 3)
    attrs = {"dims": dims, "centred": centred}
    for weight, bias in (given, (None, None), (given[0], None), (None, given[1])):
        _, mean, variance = check("standardize", x, weight, bias, 0.1, near=10, **attrs)
        check("standardize_backward", g, x, mean, variance, weight, 0.1, near=30, **attrs)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "dims", "weights"), GROUPS)
def test_weights_of_stretches_of_rows(shape, dims, weights, dtype):
    x, g = draw(shape, dtype) + 2, draw(shape, dtype, 1)
    given = draw(weights, dtype, 2), draw(weights, dtype, 3)
    attrs = {"dims": dims, "centred": True}
    for weight, bias in (given, (given[0], None), (None, given[1])):
        _, mean, variance = check("standardize", x, weight, bias, 0.1, near=10, **attrs)
        if weight is not None:
            check("standardize_backward", g, x, mean, variance, weight, 0.1, near=30, **attrs)


def test_weights_that_lie_otherwise_are_left_to_numpy():
    x = draw((2, 3, 4, 5))
    attrs = {"dims": (2, 3), "centred": True}
    for weight, bias in ((draw((2, 1, 1, 1)), None), (draw((5,)), None), (draw((4, 5)), draw((3, 1, 1)))):
        assert bind("standardize", (x, weight, bias, 1e-5), attrs) is None
    assert bind("standardize", (x, draw((3, 1, 1)), None, 1e-5), {"dims": (0, 3), "centred": True}) is None


def test_the_gradient_of_many_rows_is_joined_from_groups():
    attrs = {"dims": (1,), "centred": True}
    for n_rows in (standardize.LEAST_ROWS + 1, standardize.LEAST_ROWS * standardize.MOST_GROUPS + 3):
        x, g, weight = draw((n_rows, 20)), draw((n_rows, 20), seed=1), draw(20)
        _, mean, variance = call("standardize", x, weight, None, 1e-5, **attrs)
        check("standardize_backward", g, x, mean, variance, weight, 1e-5, near=100, **attrs)


def test_a_large_mean_does_not_spoil_the_variance():
    x = draw((4, 1000)) + np.float32(3000)
    _, _, variance = call("standardize", x, None, None, 1e-5, dims=(1,), centred=True)
    np.testing.assert_allclose(variance[:, 0], x.astype(np.float64).var(1), rtol=1e-5)


# ---- cross entropy

REDUCTIONS = ["none", "sum", "mean"]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_cross_entropy_and_its_gradient_in_every_layout(shape, dim, reduction, dtype):
    rng = np.random.default_rng(0)
    rest = (*shape[:dim], *shape[dim + 1 :])
    target = rng.integers(0, shape[dim], size=rest)
    ignore = int(target.flat[0]) if target.size > 2 and shape[dim] > 1 else -100
    logits = draw(shape, dtype) * 3
    attrs = {"dim": dim, "reduction": reduction}
    (loss,) = check("cross_entropy", logits, target, ignore, **attrs)
    g = draw(loss.shape, dtype, 1)
    check("cross_entropy_backward", g, logits, target, ignore, **attrs)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_number_is_a_target(reduction):
    logits, g = draw(11), draw(())
    attrs = {"dim": 0, "reduction": reduction}
    check("cross_entropy", logits, 3, -100, **attrs)
    check("cross_entropy_backward", g, logits, 3, -100, **attrs)


@pytest.mark.parametrize("wrong", [3, -1, 2**40, -(2**60)])
def test_a_target_that_names_no_class_is_declined(wrong):
    logits, target = draw((20, 3)), np.zeros(20, np.int64)
    for place in (0, 7, 8, 19):
        target[:] = 0
        target[place] = wrong
        for reduction in REDUCTIONS:
            assert call("cross_entropy", logits, target, -100, dim=1, reduction=reduction) is None
        assert call("cross_entropy", logits, target, wrong, dim=1, reduction="mean") is not None
    with pytest.raises(ex.errors.IndexRangeError, match="names no class"):
        class_loss_ops.CrossEntropy.numpy(logits, target, -100, dim=1, reduction="mean")


def test_the_mean_of_nothing_is_nan():
    (loss,) = call("cross_entropy", draw((4, 3)), np.full(4, 9), 9, dim=1, reduction="mean")
    assert np.isnan(loss)


def test_many_samples_are_split_by_size_alone():
    n = 3 * row_losses.WITH_EXP // 100
    logits, target = draw((n, 100)), np.random.default_rng(0).integers(0, 100, size=n)
    check("cross_entropy", logits, target, -100, dim=1, reduction="mean")
    check("cross_entropy_backward", np.array(1, np.float32), logits, target, -100, dim=1, reduction="mean")


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
