"""Norms: statistics, running statistics, half precision, gradients, refusals."""

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError
from extempo.ops import normalization as norm

from .helpers import normal


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
