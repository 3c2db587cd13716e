"""Linear systems: triangles, blocks, and matrices that have no inverse."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo import linalg
from extempo.errors import DtypeError, NumericalError
from extempo.testing import assert_close

from .helpers import normal

SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


@pytest.mark.parametrize("size", [1, 2, 49, 130])
def test_blocked_elimination_agrees_with_numpy_for_sizes_around_a_block(size):
    a, b = normal(2, size, size), normal(2, size, 3, seed=1)
    factors, pivots = linalg.lu_factor(a)
    np.testing.assert_allclose(linalg.lu_solve(factors, pivots, b).numpy(), np.linalg.solve(a.numpy(), b.numpy()))


def test_a_zero_on_a_triangle_gives_infinity_not_an_error():
    a = ex.tensor([[1.0, 1.0], [0.0, 0.0]])
    x = linalg.solve_triangular(a, ex.ones(2, 1), upper=True)
    assert x[1].item() == math.inf


def test_triangular_systems_read_one_triangle_and_skip_a_unit_diagonal():
    a, b = normal(3, 3), normal(3, 2, seed=1)
    whole = linalg.solve_triangular(a, b, upper=False)
    assert_close(whole, linalg.solve_triangular(a.tril(), b, upper=False))
    unit = linalg.solve_triangular(a, b, upper=True, unitriangular=True)
    assert_close((a.triu(1) + ex.eye(3, dtype=ex.float64)) @ unit, b)


@pytest.mark.parametrize("function", [linalg.inv, lambda a: linalg.solve(a, ex.ones(2, 1))])
def test_a_singular_matrix_is_named_by_its_place_in_the_batch(function):
    batch = ex.stack([ex.eye(2), ex.eye(2), ex.tensor(SINGULAR), ex.eye(2)]).reshape(2, 2, 2, 2)
    with pytest.raises(NumericalError, match=r"matrix \(1, 0\) of the batch is singular \(pivot 2 is zero\)"):
        function(batch)
    with pytest.raises(linalg.LinAlgError, match="the matrix is singular"):
        function(ex.tensor(SINGULAR))


def test_ex_functions_return_info_in_place_of_an_error():
    batch = ex.stack([ex.eye(2), ex.tensor(SINGULAR)])
    inverse, info = linalg.inv_ex(batch)
    assert info.tolist() == [0, 2]
    assert info.dtype is ex.int32
    assert_close(inverse[0], ex.eye(2))
    assert inverse[1].isnan().all()
    assert linalg.solve_ex(batch, ex.ones(2, 1)).info.tolist() == [0, 2]
    assert linalg.cholesky_ex(ex.stack([ex.eye(2), -ex.eye(2)])).info.tolist() == [0, 1]
    assert linalg.lu_factor_ex(batch).info.tolist() == [0, 2]
    with pytest.raises(NumericalError):
        linalg.inv_ex(batch, check_errors=True)


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16, ex.int64, ex.bool])
def test_other_dtypes_are_refused_with_the_conversion_to_use(dtype):
    with pytest.raises(DtypeError, match=r"expected float32 or float64, got .*; use x.float\(\)"):
        linalg.inv(ex.eye(2).to(dtype))
