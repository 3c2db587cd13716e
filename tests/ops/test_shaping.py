"""Other shapes by name: view, reshape, expand, in-place forms and copies."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, IndexRangeError, LeafWriteError, ShapeError

from .helpers import grid


def test_view_refuses_to_copy_and_reshape_copies():
    x = grid(2, 3).T
    with pytest.raises(ShapeError, match=r"strides \(1, 3\) cannot be seen as \(6,\) without copying; use reshape"):
        x.view(6)
    copy = x.reshape(6)
    copy.zero_()
    assert x.sum().item() == 15


def test_view_of_another_dtype_shares_the_bytes():
    x = ex.tensor([1.0, -2.0])
    bits = x.view(ex.int32)
    assert bits.tolist() == np.array([1.0, -2.0], np.float32).view(np.int32).tolist()
    bits.zero_()
    assert x.tolist() == [0.0, 0.0]
    assert grid(2, 4).view(ex.uint8).shape == (2, 16)
    assert ex.zeros(2, 4, dtype=ex.uint8).view(ex.int16).shape == (2, 2)
    with pytest.raises(ShapeError, match="last dimension"):
        ex.zeros(3, dtype=ex.uint8).view(ex.int16)


def test_sizes_that_do_not_fit_are_named():
    x = grid(3, 4)
    with pytest.raises(ShapeError, match=r"reshape: shape \(3, 4\) has 12 elements, \(5, 2\) has 10"):
        x.reshape(5, 2)
    with pytest.raises(ShapeError, match="only one size can be -1"):
        x.reshape(-1, -1)
    with pytest.raises(ShapeError, match="does not divide evenly"):
        x.reshape(5, -1)
    with pytest.raises(ShapeError, match="ambiguous"):
        ex.zeros(0, 3).reshape(-1, 0)
    with pytest.raises(ShapeError, match=r"expand: shape \(3, 4\) does not expand to \(3, 5\)"):
        x.expand(3, 5)
    with pytest.raises(ShapeError, match="new leading dimension"):
        x.expand(-1, 3, 4)
    with pytest.raises(DtypeError, match="sizes must be ints"):
        x.reshape("a")


def test_dims_and_indices_out_of_range_are_named():
    x = grid(3, 4)
    with pytest.raises(IndexRangeError, match="select: index 4 is out of range for dimension 1 of size 4"):
        x.select(1, 4)
    with pytest.raises(IndexRangeError, match="narrow: start 2 and length 3 exceed dimension 1 of size 4"):
        x.narrow(1, 2, 3)
    with pytest.raises(IndexRangeError, match="transpose: dim 2 is out of range for a 2-dim tensor"):
        x.transpose(0, 2)
    with pytest.raises(ShapeError, match="must name each of the 2 dimensions once"):
        x.permute(0, 0)
    with pytest.raises(IndexRangeError, match="0-dim tensor has no dimensions"):
        ex.tensor(1.0).select(0, 0)
    with pytest.raises(ShapeError, match="unfold: size 5 and step 1 do not fit dimension 1 of size 4"):
        x.unfold(1, 5, 1)
    with pytest.raises(ShapeError, match="diagonal: expected two different dimensions"):
        x.diagonal(0, 1, 1)


def test_expanding_to_nothing_gives_a_zero_gradient():
    x = ex.ones(1, 2, requires_grad=True)
    (g,) = ex.autograd.grad(x.expand(0, 2).sum(), x)
    assert g.tolist() == [[0.0, 0.0]]


def test_in_place_shape_changes_keep_history_and_memory():
    x = grid(2, 3).requires_grad_()
    y = x * 2
    assert y.t_() is y
    y.unsqueeze_(0)
    assert y.shape == (1, 3, 2)
    y[0, 0] = 0.0
    (g,) = ex.autograd.grad(y.sum(), x)
    np.testing.assert_array_equal(g.numpy(), [[0, 2, 2], [0, 2, 2]])
    z = ex.zeros(1, 2)
    row = z[0]
    z.squeeze_().fill_(4.0)
    assert row.tolist() == [4.0, 4.0]


def test_a_leaf_that_requires_grad_keeps_its_shape():
    x = ex.ones(2, requires_grad=True)
    with pytest.raises(LeafWriteError, match=r"unsqueeze_: .* use x = x.unsqueeze"):
        x.unsqueeze_(0)


def test_copies_of_views_share_nothing():
    x = grid(2, 3)
    for copy in (
        ex.permute_copy(x, (1, 0)),
        ex.expand_copy(x, (2, 3)),
        ex.view_copy(x, (6,)),
        ex.diagonal_copy(x),
        ex.unfold_copy(x, 1, 2, 1),
        ex.as_strided_copy(x, (2,), (1,)),
        ex.alias_copy(x),
        ex.squeeze_copy(x),
        *ex.unbind_copy(x),
    ):
        copy.fill_(-1.0)
    assert x.flatten().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_copy_can_be_put_into_out():
    out = ex.empty(0)
    assert ex.t_copy(grid(2, 3), out=out) is out
    assert out.shape == (3, 2)


def test_broadcasting_functions():
    assert ex.broadcast_shapes((3, 1), 4, (2, 1, 1)) == (2, 3, 4)
    a, b = ex.broadcast_tensors(ex.ones(3, 1), ex.ones(4))
    assert a.shape == b.shape == (3, 4)
    with pytest.raises(ShapeError, match="do not broadcast"):
        ex.broadcast_shapes((3,), (4,))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.expand(10**30),
        lambda x: x.repeat(10**30),
        lambda x: ex.rand(2**33, 2**33),
        lambda x: ex.cat([x.expand(2**62)] * 5),
        lambda x: x.expand(2**32, 2**32) + 1,
    ],
)
def test_sizes_that_no_memory_has_are_refused_and_nothing_is_written(make):
    with pytest.raises(ValueError, match="more elements than memory has addresses"):
        make(ex.ones(1))


def test_axes_are_swapped_by_numpys_keywords():
    x = ex.zeros(2, 3, 4)
    assert x.swapaxes(axis0=0, axis1=2).shape == ex.swapaxes(x, 0, 2).shape == (4, 3, 2)
    assert x.swapdims(dim0=0, dim1=2).shape == (4, 3, 2)
    assert x.swapaxes_(axis0=0, axis1=2).shape == (4, 3, 2)


@pytest.mark.parametrize("one", [1, np.int64(1), ex.tensor(1), [1], ex.Size([1])])
def test_a_dimension_is_an_integer_of_any_kind(one):
    x = ex.zeros(3, 1, 4)
    assert x.squeeze(one).shape == (3, 4)
    assert x.sum(one).shape == x.all(one).shape == (3, 4)
    assert x.roll(one, one).shape == (3, 1, 4)
    assert x.norm(dim=one).shape == (3, 4)


@pytest.mark.parametrize("sizes", [(2, 3), ((2, 3),), (ex.tensor(2), np.int32(3)), (ex.Size([2, 3]),)])
def test_sizes_are_integers_of_any_kind_in_any_form(sizes):
    x = ex.zeros(2, 3)
    assert x[:1].broadcast_to(*sizes).shape == (2, 3)
    assert x.reshape(*sizes).shape == x.view(*sizes).shape == x.sum_to_size(*sizes).shape == (2, 3)
    assert ex.zeros(*sizes).shape == ex.ones(5).resize_(*sizes).shape == (2, 3)
    assert x.sum_to_size(size=(1, 3)).shape == ex.ones(3).resize_(size=(1, 3)).shape == (1, 3)


def test_copies_of_views_take_the_tensor_by_name():
    x = ex.arange(4)
    assert ex.view_copy(input=x, size=(2, 2)).shape == (2, 2)
    assert ex.unfold_copy(input=x, dimension=0, size=2, step=2).shape == (2, 2)
