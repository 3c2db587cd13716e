"""Norms, distances and covariances: kinks, empty and extreme inputs, messages."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo import linalg
from extempo.errors import DtypeError, NumericalError, ShapeError
from extempo.ops.norms import pdist
from extempo.testing import assert_close, check_grad

from .helpers import normal


@pytest.mark.parametrize("ord", [0, 0.5, 1, 1.5, 2, 3, math.inf, -math.inf, -1, -2])
def test_vector_norm_agrees_with_numpy(ord):
    x = normal(3, 4)
    np.testing.assert_allclose(linalg.vector_norm(x, ord, 1).numpy(), np.linalg.norm(x.numpy(), ord, axis=1))


@pytest.mark.parametrize("ord", [0, 0.5, 1, 1.5, 2, 3, math.inf])
def test_the_gradient_of_a_norm_at_the_zero_vector_is_zero_to_second_order(ord):
    x = ex.zeros(3, requires_grad=True)
    (g,) = ex.autograd.grad(linalg.vector_norm(x, ord), [x], create_graph=True)
    assert g.tolist() == [0.0, 0.0, 0.0]
    if g.requires_grad and ord >= 1:
        (h,) = ex.autograd.grad(g.sum(), [x])
        assert h.isfinite().all()


def test_equal_largest_elements_share_the_gradient_of_the_infinity_norm():
    x = ex.tensor([2.0, -2.0, 1.0], requires_grad=True)
    linalg.vector_norm(x, math.inf).backward()
    assert x.grad.tolist() == [0.5, -0.5, 0.0]


def test_norms_of_nothing_are_zero_unless_they_need_an_element():
    assert linalg.vector_norm(ex.ones(0, 3), 2, 0).tolist() == [0.0, 0.0, 0.0]
    for ord in (math.inf, -math.inf, -1):
        with pytest.raises(ShapeError, match="has no elements along dim"):
            linalg.vector_norm(ex.ones(0, 3), ord, 0)


def test_half_precision_norms_do_not_overflow_inside():
    assert linalg.vector_norm(ex.full((4,), 300.0, dtype=ex.float16)).item() == 600.0


def test_nan_stays_visible():
    x = ex.tensor([1.0, math.nan])
    for ord in (1, 2, 3, math.inf, -math.inf):
        assert math.isnan(linalg.vector_norm(x, ord).item())


def test_integers_need_a_dtype():
    with pytest.raises(DtypeError, match="pass dtype="):
        linalg.vector_norm(ex.arange(3))
    assert linalg.vector_norm(ex.arange(3), dtype=ex.float64).dtype is ex.float64


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_matrix_norm_agrees_with_numpy_on_any_two_dimensions(ord):
    x = normal(3, 2, 4)
    np.testing.assert_allclose(linalg.matrix_norm(x, ord, (2, 0)).numpy(), np.linalg.norm(x.numpy(), ord, axis=(2, 0)))
    assert linalg.matrix_norm(x, ord, (2, 0), keepdim=True).shape == (1, 2, 1)
    check_grad(lambda x: linalg.matrix_norm(x, ord), [normal(3, 3)])


def test_matrix_norm_names_the_orders_it_has():
    with pytest.raises(ShapeError, match="'fro', 'nuc', 1"):
        linalg.matrix_norm(ex.ones(2, 2), 3)
    with pytest.raises(ShapeError, match="names one dimension twice"):
        linalg.matrix_norm(ex.ones(2, 2), dim=(0, -2))
    with pytest.raises(DtypeError, match="norms of matrices"):
        linalg.norm(ex.ones(2), "fro")
    with pytest.raises(ShapeError, match="one or two dimensions"):
        linalg.norm(ex.ones(2, 2, 2), 1)


def test_cond_of_a_singular_matrix_is_infinite_not_an_error():
    singular = ex.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=ex.float64)
    assert linalg.cond(ex.stack([singular, ex.eye(2, dtype=ex.float64)]), 1).tolist() == [math.inf, 1.0]
    assert linalg.cond(ex.zeros(2, 2)).isnan() or linalg.cond(ex.zeros(2, 2)).isinf()


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_cdist_agrees_with_norms_of_differences(p):
    a, b = normal(2, 4, 3), normal(5, 3, seed=1)
    differences = a.numpy()[:, :, None] - b.numpy()[None, None]
    np.testing.assert_allclose(
        ex.cdist(a, b, p).numpy(), np.linalg.norm(differences.reshape(-1, 3), p, axis=1).reshape(2, 4, 5)
    )


def test_cdist_by_product_agrees_with_cdist_by_differences():
    a, b = normal(30, 4), normal(3, 4, seed=1)
    plain = ex.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
    assert_close(ex.cdist(a, b), plain)
    check_grad(lambda a, b: ex.cdist(a, b, compute_mode="use_mm_for_euclid_dist"), [a[:4], b])


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"])
def test_the_distance_of_a_point_to_itself_has_gradient_zero(mode):
    x = ex.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    ex.cdist(x, x.detach(), compute_mode=mode).diagonal().sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_distances_of_empty_sets_and_of_points_without_coordinates():
    assert ex.cdist(ex.ones(0, 3), ex.ones(2, 3)).shape == (0, 2)
    assert ex.cdist(ex.ones(4, 0), ex.ones(2, 0), math.inf).tolist() == [[0.0, 0.0]] * 4
    assert pdist(ex.ones(1, 3)).shape == (0,)


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"])
def test_cdist_of_nan_is_nan(mode):
    distances = ex.cdist(ex.tensor([[1.0, math.nan], [2.0, 3.0]]), ex.tensor([[2.0, 3.0]]), compute_mode=mode)
    assert math.isnan(distances[0, 0].item())
    assert distances[1, 0].item() == 0.0


def test_pdist_is_the_upper_triangle_of_cdist():
    x = normal(5, 3)
    assert_close(pdist(x, 3.0), ex.tensor(ex.cdist(x, x, 3.0).numpy()[np.triu_indices(5, 1)]))


def test_cdist_says_what_it_needs():
    with pytest.raises(ShapeError, match=r"\(\.\.\., P, M\) and \(\.\.\., R, M\)"):
        ex.cdist(ex.ones(2, 3), ex.ones(2, 4))
    with pytest.raises(ShapeError, match="compute_mode must be one of"):
        ex.cdist(ex.ones(2, 3), ex.ones(2, 3), compute_mode="fast")


def test_renorm_shortens_only_what_is_too_long():
    x = ex.tensor([[3.0, 4.0], [0.3, 0.4]])
    assert_close(x.renorm(2, 0, 1.0), ex.tensor([[0.6, 0.8], [0.3, 0.4]]))
    assert_close(x.renorm_(2, 0, 1.0).norm(dim=1), ex.tensor([1.0, 0.5]))


def test_cov_and_corrcoef_agree_with_numpy():
    x = normal(3, 6)
    times, weights = ex.tensor([1, 2, 1, 3, 1, 1]), ex.tensor(np.random.default_rng(1).random(6))
    np.testing.assert_allclose(ex.cov(x).numpy(), np.cov(x.numpy()))
    np.testing.assert_allclose(
        ex.cov(x, correction=0, fweights=times, aweights=weights).numpy(),
        np.cov(x.numpy(), ddof=0, fweights=times.numpy(), aweights=weights.numpy()),
    )
    np.testing.assert_allclose(ex.corrcoef(x).numpy(), np.corrcoef(x.numpy()))
    assert ex.cov(ex.arange(4)).item() == pytest.approx(np.cov(np.arange(4)))


def test_cov_says_which_weights_do_not_fit():
    with pytest.raises(ShapeError, match=r"one number per observation \(6\)"):
        ex.cov(normal(3, 6), fweights=ex.ones(5, dtype=ex.int64))
    with pytest.raises(DtypeError, match="aweights must be floating"):
        ex.cov(normal(3, 6), aweights=ex.ones(6, dtype=ex.int64))


def test_distances_of_rows_without_elements_are_zero_and_part_of_the_graph() -> None:
    x = ex.empty(3, 0, requires_grad=True)
    for p in (0.0, 1.0, 2.0, 3.0, math.inf):
        for distances in (ex.cdist(x, ex.empty(2, 0), p), ex.nn.functional.pdist(x, p)):
            assert distances.tolist() == distances.new_zeros(distances.shape).tolist()
            assert distances.requires_grad
            distances.sum().backward()
    assert x.grad.shape == (3, 0)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3)])
def test_norms_of_empty_matrices_are_zero(shape):
    x = ex.empty(shape)
    for ord in ("fro", "nuc", 2, 1, math.inf):
        zeros = ex.zeros(shape[:-2])
        assert linalg.matrix_norm(x, ord).tolist() == zeros.tolist()
        assert linalg.matrix_norm(x, ord, keepdim=True).shape == (*shape[:-2], 1, 1)
    assert linalg.cond(x, math.inf).tolist() == linalg.cond(x).tolist() == ex.zeros(shape[:-2]).tolist()
    assert linalg.norm(ex.empty(0, 0), math.inf).item() == 0.0
    with pytest.raises(ShapeError, match="no elements"):
        linalg.norm(ex.empty(0, 0), -math.inf)


def test_norms_of_single_elements_neither_overflow_nor_vanish():
    x = ex.tensor([[1e30], [-1e-30]])
    for ord in (2, 3, 1, -2, math.inf):
        assert linalg.vector_norm(x, ord, 1).tolist() == x.abs().reshape(2).tolist()
    assert ex.norm(x[0]).item() == x[0].item()
    assert linalg.vector_norm(x, 0, 1).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "weights", [{"fweights": ex.tensor([1, -1, 2])}, {"aweights": ex.tensor([1.0, -1.0, math.nan])}]
)
def test_cov_refuses_negative_weights(weights):
    with pytest.raises(NumericalError, match=r"cov: \wweights must not be negative"):
        ex.cov(ex.tensor([[1.0, 2.0, 4.0], [6.0, 4.0, 2.0]]), **weights)


@pytest.mark.parametrize("order", [2, 2.0, np.float32(2), np.int64(2), ex.tensor(2.0)])
def test_the_order_of_a_norm_is_a_number_of_any_kind(order):
    x = ex.tensor([3.0, 4.0])
    for size in (ex.linalg.norm(x, order), x.norm(order), ex.dist(x, ex.zeros(2), order)):
        assert size.item() == 5.0
