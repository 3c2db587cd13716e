"""Norms: statistics, running statistics, half precision, gradients, refusals."""

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.numerical import gradcheck, gradgradcheck
from extempo.errors import DtypeError, ShapeError
from extempo.ops import normalization as norm


def normal(*shape, requires_grad=False, seed=0):
    return ex.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=requires_grad)


def standardized(x, dims, eps=1e-5):
    return (x - x.mean(dims, keepdims=True)) / np.sqrt(x.var(dims, keepdims=True) + eps)


def test_layer_norm_standardizes_the_last_dimensions():
    x, w, b = normal(2, 3, 4), normal(3, 4, seed=1), normal(3, 4, seed=2)
    expected = standardized(x.numpy(), (1, 2)) * w.numpy() + b.numpy()
    np.testing.assert_allclose(norm.layer_norm(x, (3, 4), w, b).numpy(), expected)
    np.testing.assert_allclose(norm.layer_norm(x, 4).numpy(), standardized(x.numpy(), (2,)))


def test_group_and_instance_norm_are_the_same_primitive_on_other_views():
    x = normal(2, 4, 3, 5)
    grouped = standardized(x.numpy().reshape(2, 2, -1), (2,)).reshape(x.shape)
    np.testing.assert_allclose(norm.group_norm(x, 2).numpy(), grouped)
    np.testing.assert_allclose(norm.instance_norm(x).numpy(), standardized(x.numpy(), (2, 3)))
    np.testing.assert_allclose(norm.group_norm(x, 4).numpy(), norm.instance_norm(x).numpy())


def test_rms_norm_divides_by_the_root_of_the_mean_square():
    x, w = normal(3, 4), normal(4, seed=1)
    expected = x.numpy() / np.sqrt((x.numpy() ** 2).mean(1, keepdims=True) + 0.1) * w.numpy()
    np.testing.assert_allclose(norm.rms_norm(x, (4,), w, 0.1).numpy(), expected)


def test_batch_norm_moves_the_running_statistics_outside_the_graph():
    x = normal(5, 3, 4, requires_grad=True)
    mean, variance = ex.zeros(3, dtype=ex.float64), ex.ones(3, dtype=ex.float64)
    y = norm.batch_norm(x, mean, variance, training=True, momentum=0.25)
    np.testing.assert_allclose(y.detach().numpy(), standardized(x.detach().numpy(), (0, 2)))
    values = x.detach().numpy()
    np.testing.assert_allclose(mean.numpy(), 0.25 * values.mean((0, 2)))
    np.testing.assert_allclose(variance.numpy(), 0.75 + 0.25 * values.var((0, 2), ddof=1))
    assert not mean.requires_grad
    y.sum().backward()


def test_batch_norm_leaves_running_statistics_alone_without_momentum_and_in_evaluation():
    x, mean, variance = normal(5, 3), ex.zeros(3, dtype=ex.float64), ex.ones(3, dtype=ex.float64)
    norm.batch_norm(x, mean, variance, training=True, momentum=None)
    y = norm.batch_norm(x, mean, variance, training=False)
    assert mean.tolist() == [0, 0, 0]
    np.testing.assert_allclose(y.numpy(), x.numpy() / np.sqrt(1 + 1e-5))


def test_batch_norm_of_an_empty_batch_is_empty_and_teaches_nothing():
    mean, variance = ex.zeros(3), ex.ones(3)
    assert norm.batch_norm(ex.zeros(0, 3, 2), mean, variance, training=True).shape == (0, 3, 2)
    assert mean.tolist() == [0, 0, 0]
    assert variance.tolist() == [1, 1, 1]


def test_instance_norm_averages_its_running_statistics_over_the_batch():
    x, mean, variance = normal(5, 3, 4), ex.zeros(3, dtype=ex.float64), ex.zeros(3, dtype=ex.float64)
    norm.instance_norm(x, mean, variance, momentum=1.0)
    np.testing.assert_allclose(mean.numpy(), x.numpy().mean((0, 2)))
    np.testing.assert_allclose(variance.numpy(), x.numpy().var(2, ddof=1).mean(0))


def test_statistics_of_half_precision_are_float32():
    x = ex.full((2, 64), 300.0, dtype=ex.float16) + ex.tensor([[1.0], [2.0]], dtype=ex.float16)
    y, mean, scale = norm.native_layer_norm(x, (64,), None, None, 1e-5)
    assert (y.dtype, mean.dtype, scale.dtype) == (ex.float16, ex.float32, ex.float32)
    assert mean.tolist() == [[301], [302]]
    assert not y.numpy().any()
    assert norm.rms_norm(x, (64,)).dtype is ex.float16


def test_half_precision_inputs_get_half_precision_gradients():
    x = normal(3, 8).bfloat16().requires_grad_()
    w = ex.ones(8, dtype=ex.bfloat16, requires_grad=True)
    norm.layer_norm(x, (8,), w).float().square().sum().backward()
    assert x.grad.dtype is w.grad.dtype is ex.bfloat16


def test_a_constant_row_gives_zeros_not_nan():
    assert norm.layer_norm(ex.full((2, 4), 7.0), (4,)).tolist() == [[0] * 4] * 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: norm.layer_norm(x.mT, (3,), w, b, 0.1),
        lambda x, w, b: norm.batch_norm(x, None, None, w, b, True, 0.1, 0.1),
        lambda x, w, b: norm.batch_norm(x, normal(3, seed=3), normal(3, seed=4) ** 2, w, b),
        lambda x, w, b: norm.group_norm(x, 1, w, b, 0.1),
        lambda x, w, b: norm.instance_norm(x, None, None, w, b, eps=0.1),
        lambda x, w, b: norm.rms_norm(x.mT, (3,), w) + b,
        lambda x, w, b: norm.native_group_norm(x, w, b, 2, 3, 2, 3, 0.1)[2],
        lambda x, w, b: norm.local_response_norm(x, 2, 0.5, 0.75, 1.0) + w.sum() * b.sum(),
    ],
)
def test_gradients_of_first_and_second_order_are_right(function):
    inputs = (
        normal(2, 3, 2, requires_grad=True),
        normal(3, requires_grad=True, seed=1),
        normal(3, requires_grad=True, seed=2),
    )
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: norm.layer_norm(ex.ones(2, 3), (2,)), r"normalized_shape \(2,\).*\(2, 3\)"),
        (lambda: norm.layer_norm(ex.ones(2, 3), (3,), ex.ones(2)), r"weight of shape \(3,\)"),
        (lambda: norm.batch_norm(ex.ones(1, 3), None, None, training=True), "larger batch"),
        (lambda: norm.batch_norm(ex.ones(2, 3), None, None), "running_mean"),
        (lambda: norm.batch_norm(ex.ones(4), None, None, training=True), "unsqueeze"),
        (lambda: norm.batch_norm(ex.ones(2, 8, 8, 3), ex.ones(3), ex.ones(3)), "8 channels.*channels come second"),
        (lambda: norm.batch_norm(ex.ones(2, 3), None, None, training=True, eps=0.0), "eps must be positive"),
        (lambda: norm.group_norm(ex.ones(2, 4), 3), "do not fall into 3 equal groups"),
        (lambda: norm.instance_norm(ex.ones(2, 3, 1)), "no variance"),
        (lambda: norm.local_response_norm(ex.ones(2, 3), 2), "spatial"),
    ],
)
def test_what_does_not_fit_is_said_before_the_kernel_runs(make, text):
    with pytest.raises(ShapeError, match=text):
        make()


def test_integers_have_no_norm():
    for function in (norm.layer_norm, norm.rms_norm):
        with pytest.raises(DtypeError, match=r"x\.float\(\)"):
            function(ex.ones(2, 3).long(), (3,))
