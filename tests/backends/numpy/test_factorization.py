"""LU and LDL factors, triangular systems and the matrix exponential: their products give the matrices back."""

import numpy as np
import pytest

from extempo.backends.numpy import factorization as f


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(
    "shape", [(1, 1), (5, 5), (4, 7), (7, 4), (60, 60), (50, 100), (2, 3, 5, 5), (0, 3, 3), (3, 0)]
)
def test_lu_times_its_factors_is_the_matrix_with_rows_exchanged(shape):
    a = draw(*shape)
    lu, pivots, info = f.lu_factor(a)
    rows, columns = shape[-2:]
    n = min(rows, columns)
    lower = np.tril(lu[..., :, :n], -1) + np.eye(rows, n)
    order = f.permutation(pivots, rows)
    np.testing.assert_allclose(lower @ np.triu(lu[..., :n, :]), np.take_along_axis(a, order[..., None], -2), atol=1e-12)
    assert np.abs(np.tril(lu[..., :, :n], -1)).max(initial=0.0) <= 1.0
    assert not info.any()


def test_info_names_the_first_zero_pivot_of_each_matrix():
    a = draw(3, 4, 4)
    a[1, :, 2] = a[1, :, 0] * 2
    a[2] = 0.0
    assert f.lu_factor(np.round(a, 2))[2].tolist()[::2] == [0, 1]
    assert f.lu_factor(np.array([[1.0, 2.0], [2.0, 4.0]]))[2] == 2


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_a_triangular_system_reads_one_triangle_only(upper, unit):
    a, b = draw(2, 5, 5) + 5 * np.eye(5), draw(2, 5, 3, seed=1)
    part = (np.triu if upper else np.tril)(a)
    if unit:
        part = part - part * np.eye(5) + np.eye(5)
    np.testing.assert_allclose(part @ f.solve_triangular(a, b, upper, unit), b, atol=1e-12)


def test_a_zero_on_the_diagonal_gives_infinities_where_it_matters():
    a = np.array([[1.0, 2.0], [0.0, 0.0]])
    with np.errstate(divide="ignore", invalid="ignore"):
        x = f.solve_triangular(a, np.array([[1.0], [1.0]]), True, False)
    assert np.isinf(x[1, 0])
    assert not np.isfinite(x[0, 0])


@pytest.mark.parametrize("n", [1, 2, 3, 8, 20])
def test_an_ldl_system_is_solved_also_where_blocks_of_two_are_needed(n):
    a = draw(4, n, n, seed=n)
    a = a + np.swapaxes(a, -1, -2)
    a[..., range(n), range(n)] *= 1e-9 if n > 1 else 1.0  # so that single pivots would not do
    factors, pivots, info = f.ldl_factor(a)
    b = draw(4, n, 2, seed=1)
    np.testing.assert_allclose(a @ f.ldl_solve(factors, pivots, b), b, atol=1e-8)
    assert not info.any()
    assert n == 1 or (pivots < 0).any()


def test_an_ldl_factor_of_a_zero_matrix_says_where_it_fails():
    _, pivots, info = f.ldl_factor(np.zeros((3, 3)))
    assert info == 1
    assert pivots.tolist() == [1, 2, 3]


def test_the_exponential_of_known_matrices_is_known():
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    for angle in (0.0, 0.1, 3.0, 50.0):
        c, s = np.cos(angle), np.sin(angle)
        np.testing.assert_allclose(f.matrix_exp(angle * turn), [[c, -s], [s, c]], atol=1e-12)
    both = f.matrix_exp(np.stack([np.diag([1.0, -40.0]), np.zeros((2, 2))]))
    np.testing.assert_allclose(both, [np.diag(np.exp([1.0, -40.0])), np.eye(2)], rtol=1e-12, atol=1e-28)
    assert f.matrix_exp(np.empty((0, 3, 3))).shape == (0, 3, 3)


def test_the_first_matrix_that_fails_is_found():
    a = np.stack([np.eye(2), np.zeros((2, 2)), np.zeros((2, 2))]).reshape(3, 1, 2, 2)
    assert f.first_failure(np.linalg.inv, a) == (1, 0)
    assert f.first_failure(np.linalg.inv, a[:1]) is None
