"""x[...] means what it means in NumPy, for reading and for writing, with gradients."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, IndexRangeError, ShapeError

from .index_keys import KEYS, as_numpy, as_ours


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_reading_is_numpys(key):
    values = np.arange(24.0).reshape(3, 4, 2)
    expected = values[as_numpy(key)]
    for given in (as_ours(key), key):
        found = ex.tensor(values)[given]
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_writing_is_numpys(key):
    expected = np.arange(24.0).reshape(3, 4, 2)
    x = ex.tensor(expected)
    expected[as_numpy(key)] = -5.0
    x[as_ours(key)] = -5.0
    np.testing.assert_array_equal(x.numpy(), expected)


def test_an_int_beside_a_list_selects_first():
    # PyTorch's rule, not NumPy's: the int does not count as an index tensor, so the list's dimension stays in place.
    assert ex.zeros(2, 3, 4)[0, :, [0, 1]].shape == (3, 2)


def test_0_dim_tensors_and_numpy_ints_are_ints():
    x = ex.arange(6.0).reshape(2, 3)
    assert x[ex.tensor(1), np.int64(2)].item() == 5.0
    row = x[ex.tensor(1)]
    row.zero_()
    assert x[1].tolist() == [0.0, 0.0, 0.0]


def test_values_broadcast_and_drop_leading_ones():
    x = ex.zeros(3, 4)
    x[1:] = ex.arange(4.0)
    x[0] = ex.full((1, 1, 4), 9.0)
    x[[0, 2], 1:3] = ex.tensor([[[1.0, 2.0]]])
    np.testing.assert_array_equal(x.numpy(), [[9, 1, 2, 9], [0, 1, 2, 3], [0, 1, 2, 3]])


def test_values_take_the_dtype_of_the_tensor():
    x = ex.zeros(3, dtype=ex.int64)
    x[0] = 2.9
    x[1:] = ex.tensor([1.5, -1.5])
    assert x.tolist() == [2, 1, -1]
    mask = ex.zeros(2, dtype=ex.bool)
    mask[1] = 3
    assert mask.tolist() == [False, True]


def test_a_part_of_a_tensor_is_copied_to_another_part():
    x = ex.arange(5.0)
    x[1:] = x[:-1]
    assert x.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0]


def test_augmented_assignment_to_a_mask_is_differentiated():
    x = ex.tensor([-1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    y[y > 0] *= 10.0
    (g,) = ex.autograd.grad(y.sum(), x)
    assert g.tolist() == [1.0, 10.0, 10.0]


def test_errors_name_dimension_and_size():
    x = ex.zeros(3, 4)
    with pytest.raises(IndexRangeError, match="index 3 is out of range for dimension 0 of size 3"):
        x[3]
    with pytest.raises(IndexRangeError, match="index -5 is out of range for dimension 1 of size 4"):
        x[:, -5]
    with pytest.raises(IndexRangeError, match="index 7 is out of range for dimension 1 of size 4"):
        x[:, [0, 7]]
    with pytest.raises(IndexRangeError, match="index 3 is out of range for dimension 0 of size 3"):
        x[[3]] = 1.0
    with pytest.raises(IndexRangeError, match="3 indices for a tensor with 2 dimensions"):
        x[0, 0, 0]
    with pytest.raises(IndexRangeError, match="only one Ellipsis"):
        x[..., ...]
    with pytest.raises(IndexRangeError, match=r"mask of shape \(4,\) does not fit .* from dim 0 on have shape \(3,\)"):
        x[ex.ones(4, dtype=ex.bool)]
    with pytest.raises(ShapeError, match="index tensors must broadcast"):
        x[[0, 1], [0, 1, 2]]
    with pytest.raises(ShapeError, match="slice step must be positive"):
        x[::-1]
    with pytest.raises(DtypeError, match="must be integer or bool"):
        x[ex.tensor([0.0])]
    with pytest.raises(DtypeError, match="expected ints, slices"):
        x["a"]
    with pytest.raises(ShapeError, match=r"value of shape \(3,\) does not broadcast to \(4,\)"):
        x[0] = ex.zeros(3)
    with pytest.raises(ShapeError, match=r"values of shape \(3,\) do not broadcast to the indexed shape \(2, 4\)"):
        x[[0, 1]] = ex.zeros(3)


def test_index_select_takes_ints_lists_and_0_dim_tensors():
    x = ex.arange(6.0).reshape(2, 3)
    assert x.index_select(1, [2, 0]).tolist() == [[2.0, 0.0], [5.0, 3.0]]
    assert x.index_select(0, 1).tolist() == [[3.0, 4.0, 5.0]]
    assert ex.tensor(4.0).index_select(0, 0).shape == ()
    with pytest.raises(ShapeError, match="expected a 1-dim index"):
        x.index_select(0, [[0]])
    with pytest.raises(DtypeError, match="expected an integer index"):
        x.index_select(0, ex.tensor([0.5]))


def test_index_put_adds_repeated_indices_up():
    x = ex.zeros(2, 2, requires_grad=True)
    value = ex.tensor([5.0, 6.0], requires_grad=True)
    y = x.index_put((ex.tensor([0, 0]), ex.tensor([1, 1])), value, accumulate=True)
    assert y.tolist() == [[0.0, 11.0], [0.0, 0.0]]
    gx, gv = ex.autograd.grad((y * 2).sum(), [x, value])
    assert gx.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert gv.tolist() == [2.0, 2.0]
    with pytest.raises(DtypeError, match="expected values of dtype"):
        x.index_put((ex.tensor([0]),), ex.tensor([1]))


def test_take_reads_the_flattened_tensor():
    x = ex.arange(6.0).reshape(2, 3).T
    assert x.take([[0, 1], [-1, 2]]).tolist() == [[0.0, 3.0], [5.0, 1.0]]


def test_masked_select_broadcasts():
    x = ex.arange(6.0).reshape(2, 3)
    assert x.masked_select(ex.tensor([True, False, True])).tolist() == [0.0, 2.0, 3.0, 5.0]
    assert ex.tensor(1.0).masked_select(ex.tensor(True)).tolist() == [1.0]
    with pytest.raises(DtypeError, match="expected a bool mask"):
        x.masked_select(ex.tensor([1, 0, 1]))


def test_nonzero_in_its_forms():
    x = ex.tensor([[0.0, 2.0], [float("nan"), 0.0]])
    assert x.nonzero().tolist() == [[0, 1], [1, 0]]
    assert [i.tolist() for i in x.nonzero(as_tuple=True)] == [[0, 1], [1, 0]]
    assert ex.argwhere(x).tolist() == [[0, 1], [1, 0]]
    assert ex.nonzero_static(x, size=3).tolist() == [[0, 1], [1, 0], [-1, -1]]
    assert ex.nonzero_static(x, size=1).tolist() == [[0, 1]]
    assert ex.tensor(3).nonzero().shape == (1, 0)
    assert ex.tensor(0).nonzero().shape == (0, 0)
    assert ex.zeros(0, 2).nonzero().shape == (0, 2)


def test_unravel_index_gives_coordinates():
    rows, columns = ex.unravel_index(ex.tensor([0, 5, 3]), (2, 3))
    assert rows.tolist() == [0, 1, 1]
    assert columns.tolist() == [0, 2, 0]
    with pytest.raises(IndexRangeError, match="has 6 elements"):
        ex.unravel_index(ex.tensor([6]), (2, 3))


def test_one_hot_names_wrong_classes():
    from extempo.ops.index import one_hot

    assert one_hot(ex.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert one_hot([1], 2).tolist() == [[0, 1]]
    with pytest.raises(IndexRangeError, match="must be from 0 to 1, got 0 to 2"):
        one_hot(ex.tensor([0, 2]), 2)
    with pytest.raises(ShapeError, match="pass num_classes"):
        one_hot(ex.zeros(0, dtype=ex.int64))


@pytest.mark.parametrize("dtype", [ex.uint8, ex.int8, ex.int32, ex.int64])
def test_unravel_index_gives_int64_for_any_shape(dtype):
    found = ex.unravel_index(ex.tensor([1, 5], dtype=dtype), (4, 1_073_741_824))
    assert [f.dtype for f in found] == [ex.int64, ex.int64]
    assert [f.tolist() for f in found] == [[0, 0], [1, 5]]
