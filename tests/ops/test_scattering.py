"""Gather, scatter and their relatives against plain loops, with gradients."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, IndexRangeError, ShapeError, UnsupportedError

INDEX = [[0, 2, 0], [1, 1, 2], [0, 0, 0], [2, 1, 1]]


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def loop(x, dim, index, src, combine):
    out = x.copy()
    for place in np.ndindex(index.shape):
        target = (*place[:dim], index[place], *place[dim + 1 :])
        out[target] = combine(out[target], src[place])
    return out


def test_gather_reads_along_one_dimension():
    x = draw(3, 4)
    index = np.array([[0, 2, 1], [2, 2, 0]])
    found = ex.tensor(x).gather(0, ex.tensor(index))
    expected = [[x[index[i, j], j] for j in range(3)] for i in range(2)]
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
def test_scatter_reduce_is_a_loop(reduce):
    combine = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
    x, src, index = draw(3, 3), draw(4, 3, seed=1), np.array(INDEX)
    found = ex.tensor(x).scatter_reduce(0, ex.tensor(index), ex.tensor(src), reduce)
    np.testing.assert_allclose(found.numpy(), loop(x, 0, index, src, combine))


def test_scatter_reduce_mean_counts_the_element_itself_or_not():
    x, index, src = ex.tensor([9.0, 4.0, 2.0]), ex.tensor([0, 0, 1]), ex.tensor([1.0, 2.0, 6.0])
    assert x.scatter_reduce(0, index, src, "mean").tolist() == [4.0, 5.0, 2.0]
    assert x.scatter_reduce(0, index, src, "mean", include_self=False).tolist() == [1.5, 6.0, 2.0]
    whole = x.long().scatter_reduce(0, index, src.long(), "mean", include_self=False)
    assert whole.tolist() == [1, 6, 2]


def test_scatter_writes_values_and_numbers():
    x = ex.zeros(2, 3)
    index = ex.tensor([[2, 0], [1, 1]])
    assert x.scatter(1, index, ex.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[2, 0, 1], [0, 4, 0]]
    assert x.scatter(1, index, 7.0).tolist() == [[7, 0, 7], [0, 7, 0]]
    assert x.scatter(1, index, value=7).tolist() == [[7, 0, 7], [0, 7, 0]]
    assert (x + 1).scatter(1, index, 3.0, reduce="multiply").tolist() == [[3, 1, 3], [1, 9, 1]]
    assert x.scatter(1, index, 3.0, reduce="add").tolist() == [[3, 0, 3], [0, 6, 0]]
    assert ex.zeros(3, dtype=ex.int64).scatter(0, ex.tensor([1]), 2.7).tolist() == [0, 2, 0]


def test_scatter_errors_name_what_does_not_fit():
    x = ex.zeros(2, 3)
    with pytest.raises(IndexRangeError, match="gather: index -1 is out of range for dimension 1 of size 3"):
        x.gather(1, ex.tensor([[-1]]))
    with pytest.raises(IndexRangeError, match="scatter: index 3 is out of range for dimension 1 of size 3"):
        x.scatter(1, ex.tensor([[3]]), 1.0)
    with pytest.raises(ShapeError, match=r"gather: index of shape \(3, 1\) .* input of shape \(2, 3\)"):
        x.gather(1, ex.zeros(3, 1, dtype=ex.int64))
    with pytest.raises(ShapeError, match=r"src of shape \(1, 1\) must cover the index of shape \(1, 2\)"):
        x.scatter(1, ex.tensor([[0, 1]]), ex.zeros(1, 1))
    with pytest.raises(DtypeError, match="expected an integer index"):
        x.gather(1, ex.tensor([[0.0]]))
    with pytest.raises(DtypeError, match="expected values of dtype"):
        x.scatter_add(1, ex.tensor([[0]]), ex.tensor([[1]]))
    with pytest.raises(ShapeError, match="reduce must be sum"):
        x.scatter_reduce(1, ex.tensor([[0]]), ex.zeros(1, 1), "median")


def test_take_along_dim_broadcasts_and_wraps_negative_indices():
    x = ex.tensor(draw(2, 3))
    order = x.numpy().argsort(1)
    np.testing.assert_array_equal(x.take_along_dim(ex.tensor(order), 1).numpy(), np.sort(x.numpy(), 1))
    assert x.take_along_dim(ex.tensor([[-1]]), 1).shape == (2, 1)
    assert x.take_along_dim(ex.tensor([5, 0])).tolist() == [x[1, 2].item(), x[0, 0].item()]


def test_slices_are_added_copied_and_filled():
    x = ex.zeros(3, 2)
    rows = ex.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.index_add(0, [2, 2], rows, alpha=2).tolist() == [[0, 0], [0, 0], [8, 12]]
    assert x.index_copy(0, ex.tensor([2, 0]), rows).tolist() == [[3, 4], [0, 0], [1, 2]]
    assert x.index_fill(1, [-1], 5.0).tolist() == [[0, 5]] * 3
    assert x.index_fill(0, 1, ex.tensor(2.0)).tolist() == [[0, 0], [2, 2], [0, 0]]
    assert ex.tensor(1.0).index_add(0, [0, 0], ex.tensor([2.0, 3.0])).item() == 6.0
    with pytest.raises(ShapeError, match=r"index_add: expected a source of shape \(1, 2\)"):
        x.index_add(0, [0], rows)


def test_a_slice_that_is_filled_twice_counts_once():
    value = ex.tensor(2.0, requires_grad=True)
    y = ex.zeros(3).index_fill(0, ex.tensor([1, 1]), value)
    (g,) = ex.autograd.grad(y.sum(), value)
    assert g.item() == 1.0


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce_is_scatter_reduce_of_slices(reduce):
    x, source = draw(3, 2), draw(4, 2, seed=1)
    found = ex.tensor(x).index_reduce(0, ex.tensor([0, 2, 0, 0]), ex.tensor(source), reduce, include_self=False)
    rule = {"prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    np.testing.assert_allclose(found.numpy(), [rule(source[[0, 2, 3]], 0), x[1], source[1]])


def test_put_counts_in_the_flattened_tensor():
    x = ex.zeros(2, 3)
    assert x.put(ex.tensor([1, 4]), ex.tensor([5.0, 6.0])).tolist() == [[0, 5, 0], [0, 6, 0]]
    assert x.put(ex.tensor([1, 1]), ex.tensor([5.0, 6.0]), accumulate=True).tolist() == [[0, 11, 0], [0, 0, 0]]


def test_masks_fill_and_scatter():
    x = ex.zeros(2, 2)
    mask = ex.tensor([[True, False], [True, True]])
    assert x.masked_fill(mask, 3).tolist() == [[3, 0], [3, 3]]
    assert x.masked_fill(ex.tensor([True, False]), float("-inf"))[:, 0].tolist() == [float("-inf")] * 2
    assert x.long().masked_fill(mask, 2.9).tolist() == [[2, 0], [2, 2]]
    assert x.bool().masked_fill(mask, 2).tolist() == [[True, False], [True, True]]
    assert x.masked_scatter(mask, ex.arange(9.0)).tolist() == [[0, 0], [1, 2]]
    with pytest.raises(ShapeError, match="the mask holds in 3 places, source has only 2 elements"):
        x.masked_scatter(mask, ex.zeros(2))
    with pytest.raises(DtypeError, match="expected a bool mask"):
        x.masked_fill(ex.tensor([1, 0]), 0.0)
    with pytest.raises(ShapeError, match="0-dim tensor"):
        x.masked_fill(mask, ex.zeros(2))


def test_masked_values_get_the_gradient_that_the_input_loses():
    x = ex.zeros(2, 2, requires_grad=True)
    source = ex.zeros(4, requires_grad=True)
    y = x.masked_scatter(ex.tensor([[True, False], [True, True]]), source)
    gx, gs = ex.autograd.grad((y * ex.tensor([[1.0, 2.0], [3.0, 4.0]])).sum(), [x, source])
    assert gx.tolist() == [[0, 2], [0, 0]]
    assert gs.tolist() == [1, 3, 4, 0]


def test_functions_that_write_where_a_view_looks():
    x = ex.zeros(2, 3)
    assert x.select_scatter(ex.ones(3), 0, -1).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert x.slice_scatter(ex.ones(2, 2), 1, 0, None, 2).tolist() == [[1, 0, 1], [1, 0, 1]]
    assert x.diagonal_scatter(ex.ones(2), 1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert x.as_strided_scatter(ex.ones(2), (2,), (3,), 2).tolist() == [[0, 0, 1], [0, 0, 1]]
    assert x.sum().item() == 0
    with pytest.raises(ShapeError, match=r"select_scatter: expected a src of shape \(3,\), got \(2,\)"):
        x.select_scatter(ex.ones(2), 0, 0)


def test_as_strided_scatter_gives_its_input_no_gradient_where_src_went():
    x, src = ex.zeros(2, 3, requires_grad=True), ex.zeros(2, requires_grad=True)
    weights = ex.arange(6.0).reshape(2, 3)
    gx, gs = ex.autograd.grad((x.as_strided_scatter(src, (2,), (4,)) * weights).sum(), [x, src])
    assert gx.tolist() == [[0, 1, 2], [3, 0, 5]]
    assert gs.tolist() == [0, 4]


def test_in_place_forms_write_back_with_their_gradients():
    x = ex.ones(3, requires_grad=True)
    value = ex.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    y.index_add_(0, ex.tensor([0, 1]), value).scatter_(0, ex.tensor([2]), value[:1]).masked_fill_(y > 3.5, 0.0)
    assert y.tolist() == [3.0, 0.0, 2.0]
    gx, gv = ex.autograd.grad(y.sum(), [x, value])
    assert gx.tolist() == [1.0, 0.0, 0.0]
    assert gv.tolist() == [2.0, 0.0]


def test_gather_refuses_a_sparse_gradient() -> None:
    with pytest.raises(UnsupportedError, match=r"sparse_grad=True .* leave it out"):
        ex.gather(ex.ones(2, requires_grad=True), 0, ex.tensor([1]), sparse_grad=True)
