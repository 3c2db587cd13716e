"""Joining copies, splitting makes views."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, IndexRangeError, ShapeError

from .helpers import grid, shapes


def test_cat_joins_along_any_dimension():
    a, b = grid(2, 3), grid(2, 1)
    np.testing.assert_array_equal(ex.cat([a, b], -1).numpy(), np.concatenate([a.numpy(), b.numpy()], -1))
    assert ex.cat((a.T, b.T)).shape == (4, 2)
    assert ex.cat is ex.concat is ex.concatenate


def test_cat_promotes_dtypes_and_gives_each_input_its_own_gradient():
    a = ex.ones(2, dtype=ex.float32, requires_grad=True)
    b = ex.ones(1, dtype=ex.float64, requires_grad=True)
    joined = ex.cat([a, b, ex.tensor([7])])
    assert joined.dtype is ex.float64
    ga, gb = ex.autograd.grad((joined * ex.arange(4.0)).sum(), [a, b])
    assert ga.dtype is ex.float32
    assert ga.tolist() == [0.0, 1.0]
    assert gb.tolist() == [2.0]


def test_cat_leaves_empty_vectors_out():
    assert ex.cat([ex.zeros(0), grid(2, 3)]).shape == (2, 3)
    assert ex.cat([ex.zeros(0), ex.zeros(0)]).shape == (0,)
    assert ex.cat([ex.zeros(0, 3), grid(2, 3)]).shape == (2, 3)


def test_cat_and_stack_errors_name_the_tensor_that_does_not_fit():
    with pytest.raises(ShapeError, match=r"tensor 0 has shape \(2, 3\), tensor 1 \(2, 4\)"):
        ex.cat([grid(2, 3), grid(2, 4)])
    with pytest.raises(ShapeError, match="use stack"):
        ex.cat([ex.tensor(1.0), ex.tensor(2.0)])
    with pytest.raises(ShapeError, match="at least one tensor"):
        ex.cat([])
    with pytest.raises(ShapeError, match=r"stack: shapes must be equal.*\(2,\).*\(3,\)"):
        ex.stack([grid(2), grid(3)])
    with pytest.raises(DtypeError, match="expected tensors, got float"):
        ex.stack([1.0, 2.0])
    with pytest.raises(IndexRangeError, match="cat: dim 2"):
        ex.cat([grid(2, 2)], 2)


def test_stack_makes_a_new_dimension():
    a, b = grid(2, 3), grid(2, 3) + 1
    for dim in (0, 1, 2, -1):
        np.testing.assert_array_equal(ex.stack([a, b], dim).numpy(), np.stack([a.numpy(), b.numpy()], dim))
    x = ex.tensor(2.0, requires_grad=True)
    (g,) = ex.autograd.grad((ex.stack([x, x * x]) * ex.tensor([1.0, 10.0])).sum(), x)
    assert g.item() == 41.0


def test_the_same_tensor_joined_twice_gets_both_gradients():
    x = ex.ones(2, requires_grad=True)
    (g,) = ex.autograd.grad((ex.cat([x, x]) * ex.arange(4.0)).sum(), x)
    assert g.tolist() == [2.0, 4.0]


def test_stacks_by_rows_columns_and_depth():
    a, b = grid(3), grid(3)
    assert ex.hstack([a, b]).shape == (6,)
    assert ex.vstack([a, b]).shape == (2, 3)
    assert ex.dstack([a, b]).shape == (1, 3, 2)
    assert ex.column_stack([a, b]).shape == (3, 2)
    assert ex.hstack([ex.tensor(1.0), ex.tensor(2.0)]).tolist() == [1.0, 2.0]
    assert ex.column_stack([a, grid(3, 2)]).shape == (3, 3)


def test_at_least_so_many_dimensions():
    x = ex.tensor(1.0)
    assert ex.atleast_1d(x).shape == (1,)
    assert ex.atleast_2d(x).shape == (1, 1)
    assert ex.atleast_3d(x).shape == (1, 1, 1)
    assert ex.atleast_3d(grid(4)).shape == (1, 4, 1)
    assert ex.atleast_3d(grid(4, 5)).shape == (4, 5, 1)
    assert shapes(ex.atleast_2d(x, grid(3))) == [(1, 1), (1, 3)] == shapes(ex.atleast_2d([x, grid(3)]))


def test_block_diag_is_zero_outside_the_blocks():
    made = ex.block_diag(ex.tensor([[1, 2]]), ex.tensor(3), ex.tensor([4.0, 5.0]))
    assert made.tolist() == [[1, 2, 0, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 4, 5]]


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid_is_numpys(indexing):
    a, b, c = grid(2), grid(3), grid(4)
    expected = np.meshgrid(a.numpy(), b.numpy(), c.numpy(), indexing=indexing)
    for found, wanted in zip(ex.meshgrid(a, b, c, indexing=indexing), expected, strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_products_and_combinations():
    assert ex.cartesian_prod(ex.tensor([1, 2]), ex.tensor([3, 4])).tolist() == [[1, 3], [1, 4], [2, 3], [2, 4]]
    assert ex.combinations(ex.tensor([1, 2, 3])).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert ex.combinations(ex.tensor([1, 2]), with_replacement=True).tolist() == [[1, 1], [1, 2], [2, 2]]
    assert ex.combinations(ex.tensor([1, 2]), r=3).shape == (0, 3)


def test_an_empty_vector_that_requires_grad_makes_the_result_require_it() -> None:
    empty = ex.empty(0, requires_grad=True)
    for given, dim in (([empty, ex.ones(2, 3)], 1), ([ex.ones(3), empty], 0), ([empty, empty], 0)):
        joined = ex.cat(given, dim)
        assert joined.requires_grad
        joined.sum().backward()
        assert empty.grad.shape == (0,)
        assert joined.shape == ex.cat([x.detach() for x in given], dim).shape
    assert not ex.cat([ex.empty(0), ex.ones(2, 3)], 1).requires_grad


def test_stack_of_rows_of_different_lengths_points_to_ragged():
    with pytest.raises(ShapeError, match=r"use ex\.ragged\(\[\.\.\.\]\) for rows of different lengths, or cat"):
        ex.stack([ex.ones(2, 3), ex.ones(4, 3)])
    with pytest.raises(ShapeError, match="reshape them first"):
        ex.stack([ex.ones(2, 3), ex.ones(2)])


@pytest.mark.parametrize("n", [25, 48, 49, 64, 300, 1100])
def test_any_number_of_tensors_is_joined_with_the_gradients_of_those_that_need_one(n):
    pieces = [ex.full((2, 1 + k % 3), float(k), requires_grad=k % 2 == 0) for k in range(n)]
    joined = ex.cat(pieces, 1)
    assert joined.tolist() == np.concatenate([p.detach().numpy() for p in pieces], axis=1).tolist()
    (joined * joined).sum().backward()
    assert all(ex.equal(p.grad, 2 * p) for p in pieces[::2])
    same = [ex.full((3,), float(k)) for k in range(n)]
    assert ex.stack(same).tolist() == [[float(k)] * 3 for k in range(n)]
    assert ex.compile(lambda: ex.stack(same, 1))().tolist() == ex.stack(same, 1).tolist()


def test_a_thousand_tensors_are_joined_by_native_code():
    if ex.backends.stats()["backend"] != "native":
        pytest.skip("the native backend does not run here")
    tensors = [ex.ones(4)] * 1000
    before = ex.backends.stats()["fallbacks"].get("stack", 0)
    assert ex.stack(tensors).shape == (1000, 4)
    assert ex.backends.stats()["fallbacks"].get("stack", 0) == before
