"""Activations at their kinks and extremes, in place, and on dtypes and shapes that PyTorch's samples leave out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError
from extempo.nn import functional as F

from .helpers import values

EXTREME = [-1e4, -100.0, 0.0, 100.0, 1e4]


def gradient(fn, data: list) -> list:
    x = ex.tensor(data, requires_grad=True)
    return values(ex.autograd.grad(fn(x).sum(), x)[0])


@pytest.mark.parametrize(
    "fn",
    [
        F.relu,
        F.elu,
        F.selu,
        F.celu,
        F.gelu,
        F.silu,
        F.mish,
        F.softplus,
        F.logsigmoid,
        F.softsign,
        F.hardswish,
        F.leaky_relu,
    ],
)
def test_values_and_both_gradients_stay_finite_far_out(fn):
    x = ex.tensor(EXTREME, requires_grad=True)
    y = fn(x)
    (first,) = ex.autograd.grad(y.sum(), x, create_graph=True)
    for result in (y, first):
        assert np.isfinite(result.detach().numpy()).all()
    if first.requires_grad:
        (second,) = ex.autograd.grad(first.sum(), x)
        assert np.isfinite(second.numpy()).all()


@pytest.mark.parametrize("fn", [F.relu, F.relu6, F.leaky_relu, F.softshrink, F.hardshrink, F.hardtanh, F.elu])
def test_nan_stays_nan(fn):
    assert math.isnan(fn(ex.tensor([math.nan])).item())


def test_relu_passes_no_gradient_at_zero():
    assert gradient(F.relu, [-1.0, 0.0, 1.0]) == [0.0, 0.0, 1.0]


def test_relu_keeps_only_its_result():
    x = ex.tensor([-1.0, 2.0], requires_grad=True) * 1.0
    y = F.relu(x)
    x.mul_(3.0)
    y.sum().backward()


def test_relu_in_place_after_a_product_can_be_differentiated():
    w = ex.tensor([[1.0, -1.0]], requires_grad=True)
    h = w * 2.0
    assert F.relu(h, inplace=True) is h
    h.sum().backward()
    assert values(w.grad) == [[2.0, 0.0]]


def test_underscore_names_write_in_place():
    x = ex.tensor([-1.0, 8.0])
    assert F.hardtanh_(x, 0.0, 6.0) is x
    assert values(x) == [0.0, 6.0]
    assert values(F.threshold_(x, 1.0, -5.0)) == [-5.0, 6.0]


def test_integers_are_clipped_as_integers():
    x = ex.tensor([-3, 2, 9])
    assert F.relu6(x).dtype is ex.int64
    assert values(F.relu6(x)) == [0, 2, 6]
    assert values(F.threshold(x, 1, 7)) == [7, 2, 9]


def test_hardtanh_passes_no_gradient_on_its_bounds():
    assert gradient(F.hardtanh, [-2.0, -1.0, 0.0, 1.0]) == [0.0, 0.0, 1.0, 0.0]
    with pytest.raises(ShapeError, match="above max_val"):
        F.hardtanh(ex.ones(1), 2.0, 1.0)


def test_gelu_of_negative_numbers_keeps_its_digits():
    x = -8.0
    exact = x * 0.5 * math.erfc(-x / math.sqrt(2.0))
    assert F.gelu(ex.tensor(x)).item() == pytest.approx(exact, rel=1e-6)


def test_gelu_names_its_approximations():
    x = ex.tensor([-1.0, 0.5, 2.0])
    assert values(F.gelu(x, approximate="tanh")) == pytest.approx(values(F.gelu(x)), abs=1e-3)
    with pytest.raises(DtypeError, match="'none' or 'tanh'"):
        F.gelu(x, "sigmoid")


def test_the_gradient_of_the_tanh_form_of_gelu_stays_finite_for_numbers_of_any_size():
    slopes = gradient(lambda x: F.gelu(x, approximate="tanh"), [-3e38, -1e15, -20.0, 20.0, 1e15, 3e38])
    assert slopes == pytest.approx([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], abs=1e-12)


def test_logsigmoid_keeps_its_tail():
    assert values(F.logsigmoid(ex.tensor([-200.0, 30.0], dtype=ex.float64))) == pytest.approx(
        [-200.0, -math.exp(-30.0)], rel=1e-12
    )


def test_softplus_is_exact_where_the_threshold_does_not_cut():
    x = ex.tensor([25.0], dtype=ex.float64)
    assert F.softplus(x, threshold=50.0).item() == math.log1p(math.exp(-25.0)) + 25.0
    assert F.softplus(x).item() == 25.0


def test_prelu_has_one_slope_for_all_or_one_per_channel():
    x = ex.tensor([[-1.0, -1.0], [1.0, -2.0]])
    assert values(F.prelu(x, ex.tensor([0.5]))) == [[-0.5, -0.5], [1.0, -1.0]]
    assert values(F.prelu(x, ex.tensor([0.5, 0.1]))) == pytest.approx(np.array([[-0.5, -0.1], [1.0, -0.2]]))
    assert values(F.prelu(ex.tensor(-2.0), ex.tensor([0.25]))) == -0.5
    with pytest.raises(ShapeError, match="3 weights for 2 channels"):
        F.prelu(x, ex.ones(3))


def test_rrelu_draws_slopes_within_bounds_and_uses_their_mean_in_evaluation():
    ex.manual_seed(0)
    x = -ex.ones(1000)
    drawn = -F.rrelu(x, 0.1, 0.3, training=True).numpy()
    assert 0.1 <= drawn.min() < 0.12
    assert 0.28 < drawn.max() <= 0.3
    assert values(F.rrelu(ex.tensor([-1.0]), 0.1, 0.3)) == pytest.approx([-0.2])


def test_glu_halves_a_dimension():
    x = ex.tensor([[1.0, 2.0, 0.0, 0.0]])
    assert values(F.glu(x)) == [[0.5, 1.0]]
    with pytest.raises(ShapeError, match="must be even"):
        F.glu(ex.ones(2, 3))


def test_celu_with_alpha_zero_and_softshrink_below_zero_are_refused():
    with pytest.raises(ShapeError, match="must not be 0"):
        F.celu(ex.ones(1), alpha=0.0)
    with pytest.raises(ShapeError, match="must not be negative"):
        F.softshrink(ex.ones(1), -1.0)


def test_softmax_without_dim_warns_and_chooses_as_pytorch():
    x = ex.ones(2, 4)
    with pytest.warns(UserWarning, match="write dim=1"):
        assert values(F.softmax(x))[0] == [0.25] * 4
    assert values(F.softmin(ex.tensor([0.0, 1e9]), dim=0)) == [1.0, 0.0]
    assert F.log_softmax(ex.ones(2), dim=0, dtype=ex.float64).dtype is ex.float64


def test_gumbel_softmax_is_a_choice_with_a_gradient():
    ex.manual_seed(1)
    logits = ex.tensor([[0.0, 3.0, 0.0]] * 5, requires_grad=True)
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True)
    assert sorted({round(v, 6) for row in values(hard) for v in row}) == [0.0, 1.0]
    assert [round(sum(row), 6) for row in values(hard)] == [1.0] * 5
    (hard * ex.arange(3)).sum().backward()
    assert float(logits.grad.abs().sum()) > 0
    soft = F.gumbel_softmax(logits)
    assert values(soft.sum(-1)) == pytest.approx([1.0] * 5)


def test_half_precision_is_kept():
    for dtype in (ex.float16, ex.bfloat16):
        x = ex.tensor([-1.0, 0.5]).to(dtype)
        for fn in (F.gelu, F.silu, F.elu, F.softplus, F.mish, F.leaky_relu):
            assert fn(x).dtype is dtype


def test_parameters_of_activations_make_no_new_gradient_code():
    x = ex.tensor([-1.0, 2.0], requires_grad=True)
    for slope in (0.1, 0.2, 0.3):
        x.grad = None
        F.leaky_relu(x, slope).sum().backward()
        assert values(x.grad) == pytest.approx([slope, 1.0])
