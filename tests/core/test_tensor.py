"""The public face of Tensor, sentence by sentence, and what scripts write without thinking."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import extempo as ex
from extempo.errors import (
    AutogradError,
    DtypeError,
    ExtempoError,
    OverwrittenError,
    ShapeError,
)

DTYPES = (
    ex.float16, ex.bfloat16, ex.float32, ex.float64, ex.int8, ex.int16, ex.int32, ex.int64, ex.uint8, ex.bool,
)  # fmt: skip


# ---- dtypes and promotion


def test_true_division_of_integers_gives_float32():
    assert (ex.tensor(1) / 2).dtype is ex.float32
    assert (ex.tensor([1], dtype=ex.int8) / ex.tensor([2], dtype=ex.int8)).dtype is ex.float32


def test_python_scalars_are_weak_and_zero_dim_tensors_stand_below_dimensioned_ones():
    half, whole = ex.zeros(2, dtype=ex.float16), ex.zeros(2, dtype=ex.int8)
    assert (half * 2.5).dtype is ex.float16
    assert (whole + 1000).dtype is ex.int8
    assert (whole + 0.5).dtype is ex.float32
    assert (half + ex.tensor(1.0, dtype=ex.float64)).dtype is ex.float16
    assert (whole + ex.tensor(1.0, dtype=ex.float64)).dtype is ex.float64
    assert (half + ex.zeros(2, dtype=ex.float64)).dtype is ex.float64


# ---- values as Python and NumPy see them


def test_item_and_tolist_give_python_numbers():
    assert type(ex.tensor([[2.5]]).item()) is float
    assert type(ex.tensor(2).item()) is int
    assert type(ex.tensor(True).item()) is bool
    assert type(ex.tensor(2.5).bfloat16().item()) is float
    assert ex.tensor([[1, 2]]).tolist() == [[1, 2]]
    assert ex.tensor(3).tolist() == 3
    with pytest.raises(ShapeError, match="item: expected a tensor with one element"):
        ex.zeros(2).item()


def test_bool_float_int_and_index():
    assert bool(ex.tensor([[1.0]]))
    assert not ex.tensor(0)
    assert float(ex.tensor([2])) == 2.0
    assert int(ex.tensor(2.7)) == 2
    assert [1, 2, 3][ex.tensor(1)] == 2
    assert "abc"[ex.tensor([2])] == "c"
    assert range(ex.tensor(3)) == range(3)
    for ambiguous in (ex.zeros(2), ex.zeros(0)):
        with pytest.raises(ExtempoError, match="no single truth value"):
            bool(ambiguous)
    with pytest.raises(TypeError, match="index"):
        [1, 2][ex.tensor(1.0)]
    with pytest.raises(ValueError, match="one element"):
        float(ex.zeros(2))


def test_len_iteration_and_contains():
    x = ex.arange(6).reshape(2, 3)
    assert len(x) == 2
    assert [row.tolist() for row in x] == [[0, 1, 2], [3, 4, 5]]
    _, second = x
    assert second.tolist() == [3, 4, 5]
    assert 4 in x
    assert 9 not in x
    assert [v.tolist() for v in reversed(ex.arange(3))] == [2, 1, 0]
    for call in (len, list):
        with pytest.raises(TypeError, match="0-dim tensor"):
            call(ex.zeros(()))


def test_rows_of_an_iteration_are_views_inside_the_graph():
    x = ex.ones(2, 2, requires_grad=True)
    total = sum((row * (i + 1)).sum() for i, row in enumerate(x))
    total.backward()
    assert x.grad.tolist() == [[1, 1], [2, 2]]


def test_tensors_are_hashed_by_identity():
    x, y = ex.zeros(2), ex.zeros(2)
    assert len({x, y, x}) == 2
    assert {x: 1}[x] == 1


def test_formatting():
    assert f"{ex.tensor(1.5):.3f}" == "1.500"
    assert f"{ex.tensor([1.5])}" == "tensor([1.5000])"
    assert str(ex.tensor(3)) == "tensor(3)"


def test_repr_says_requires_grad_grad_fn_and_dtype():
    x = ex.ones(2, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 2.], grad_fn=<MulBackward>)"
    assert repr(ex.zeros(1, dtype=ex.float64)) == "tensor([0.], dtype=extempo.float64)"
    assert repr(ex.zeros(0, 3)) == "tensor([], size=(0, 3))"
    assert "..." in repr(ex.zeros(2000))


def test_numpy_shares_memory_in_both_directions():
    x = ex.zeros(2, 3)
    array = x.numpy()
    array[0, 0] = 5
    assert x[0, 0].item() == 5
    x.t()[2, 1] = 7
    assert array[1, 2] == 7
    assert x.t().numpy().strides == (4, 12)
    assert ex.zeros(2, dtype=ex.bfloat16).numpy().dtype == ml_dtypes.bfloat16


def test_numpy_of_a_tracked_tensor_must_be_asked_for():
    x = ex.ones(2, requires_grad=True)
    for call in (x.numpy, lambda: np.asarray(x), lambda: x.__dlpack__()):
        with pytest.raises(AutogradError, match="detach"):
            call()
    assert x.numpy(force=True).tolist() == [1, 1]
    assert x.detach().numpy().tolist() == [1, 1]


def test_numpy_functions_take_tensors():
    x = ex.tensor([1.0, 2.0])
    assert np.asarray(x).dtype == np.float32
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.allclose(x, [1, 2])
    np.testing.assert_array_equal(np.concatenate([x, x]), [1, 2, 1, 2])


def test_arrays_and_numpy_scalars_are_operands_on_either_side():
    x = ex.ones(2)
    for result in (x + np.ones(2, np.float32), np.ones(2, np.float32) + x, np.float64(1) + x, x + np.float64(1)):
        assert isinstance(result, ex.Tensor)
        assert result.tolist() == [2, 2]
    assert (np.float64(2) * x).dtype is ex.float32


# ---- exchange


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pickle_keeps_values_dtype_and_requires_grad(dtype):
    x = ex.tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    for value in (x, x.t(), x[:, 1:], x[0, 0], x[:0]):
        back = pickle.loads(pickle.dumps(value))
        assert (back.dtype, back.shape, back.tolist()) == (dtype, value.shape, value.tolist())
        back.zero_()
    assert x.tolist() == [[0, 1, 1], [1, 0, 1]]
    if dtype.is_floating_point:
        assert pickle.loads(pickle.dumps(x.requires_grad_())).requires_grad


def test_copies_of_a_graph_are_refused_and_of_a_leaf_are_not():
    x = ex.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    other = copy.deepcopy(x)
    assert other.requires_grad
    assert other.grad.tolist() == [2, 2]
    assert other.grad is not x.grad
    assert other.data_ptr() != x.data_ptr()
    pair = copy.deepcopy([x, x])
    assert pair[0] is pair[1]
    view = ex.arange(6.0).reshape(2, 3).t()[1:]
    assert copy.deepcopy(view).tolist() == view.tolist()
    for call in (lambda: copy.deepcopy(x * 2), lambda: pickle.dumps(x * 2)):
        with pytest.raises(AutogradError, match="leaf"):
            call()


def test_attributes_set_by_users_travel_along():
    x = ex.zeros(2)
    x.label = "bias"
    assert copy.deepcopy(x).label == "bias"
    assert pickle.loads(pickle.dumps(x)).label == "bias"


# ---- in place


def test_data_is_the_same_memory_outside_the_graph():
    x = ex.ones(3, requires_grad=True)
    assert not x.data.requires_grad
    assert x.data.data_ptr() == x.data_ptr()
    x.data = ex.zeros(2)
    assert x.shape == (2,)
    assert x.requires_grad


def test_out_takes_shape_and_keeps_dtype():
    out = ex.zeros(0, dtype=ex.float64)
    assert ex.add(ex.ones(2), 1, out=out) is out
    assert out.dtype is ex.float64
    assert out.tolist() == [2, 2]
    with pytest.raises(DtypeError, match="out"):
        ex.add(ex.ones(2), 0.5, out=ex.zeros(2, dtype=ex.int64))
    with pytest.raises(AutogradError, match="out"):
        ex.add(ex.ones(2, requires_grad=True), 1, out=ex.zeros(2))


# ---- what scripts write without thinking


def test_shape_is_a_size():
    x = ex.zeros(2, 3)
    assert isinstance(x.shape, ex.Size)
    assert x.shape == (2, 3) == x.size()
    assert x.shape.numel() == 6
    assert repr(x.shape) == "extempo.Size([2, 3])"
    batch, *rest = x.shape
    assert (batch, rest) == (2, [3])
    assert x.ndim == 2
    assert pickle.loads(pickle.dumps(x.shape)) == x.shape


def test_backend_switches_can_be_set():
    assert not ex.backends.mps.is_available()
    assert not ex.backends.mps.is_built()
    assert ex.backends.cudnn.version() is None
    ex.backends.cudnn.benchmark = True
    assert ex.backends.cudnn.benchmark
    ex.backends.cudnn.benchmark = False
    with ex.backends.cudnn.flags(enabled=False):
        assert not ex.backends.cudnn.enabled
    assert ex.backends.cudnn.enabled
    ex.backends.cuda.matmul.allow_tf32 = False
    assert not ex.backends.mkl.is_available()
    assert not ex.backends.openmp.is_available()
    with pytest.raises(AttributeError):
        ex.backends.cudnn.colour  # noqa: B018 - reading it is the test


def test_legacy_constructors():
    assert ex.Tensor(2, 3).shape == (2, 3)
    assert ex.Tensor([1, 2]).tolist() == [1.0, 2.0]
    assert ex.Tensor((2, 3)).tolist() == [2.0, 3.0]
    assert ex.Tensor().shape == (0,)
    assert ex.Tensor(ex.Size([2, 1])).shape == (2, 1)
    assert ex.Tensor(np.arange(3)).dtype is ex.float32
    x = ex.ones(2)
    assert ex.Tensor(x).data_ptr() == x.data_ptr()
    with pytest.raises(DtypeError, match=r"use ex\.tensor"):
        ex.Tensor(3.5)


def test_dtypes_have_their_other_names_and_limits():
    assert ex.float is ex.float32
    assert ex.double is ex.float64
    assert ex.half is ex.float16
    assert ex.long is ex.int64
    assert ex.int is ex.int32
    assert ex.short is ex.int16
    assert ex.finfo(ex.float32).eps == 2.0**-23
    assert ex.finfo(ex.bfloat16).max > 3e38
    assert ex.iinfo(ex.int8).max == 127
    assert ex.float32.itemsize == 4
    assert pickle.loads(pickle.dumps(ex.float32)) is ex.float32
    assert pickle.loads(pickle.dumps(ex.strided)) is ex.strided
    assert copy.deepcopy(ex.channels_last) is ex.channels_last
    assert repr(ex.contiguous_format) == "extempo.contiguous_format"


def test_transposed_properties():
    x = ex.zeros(2, 3, 4)
    assert x.mT.shape == (2, 4, 3)
    assert ex.zeros(2, 3).T.shape == (3, 2)
    with pytest.raises(ShapeError, match="mT"):
        ex.zeros(3).mT  # noqa: B018 - reading it is the test


def test_named_results():
    values, indices = ex.tensor([[1.0, 3.0], [2.0, 0.0]]).max(dim=1)
    assert values.tolist() == [3, 2]
    result = ex.tensor([[1.0, 3.0], [2.0, 0.0]]).max(dim=1)
    assert result.values.tolist() == [3, 2]
    assert result.indices.tolist() == indices.tolist() == [1, 0]


def test_data_takes_tensors_only():
    x = ex.ones(2)
    with pytest.raises(ex.errors.DtypeError, match=r"data: expected a tensor, got ndarray; make one with ex.tensor"):
        x.data = np.ones(2)
    assert x.tolist() == [1.0, 1.0]


def test_deepcopy_keeps_what_shares_memory_sharing_it() -> None:
    x = ex.arange(6.0)
    whole, part, detached, data = copy.deepcopy([x, x[1:4], x.detach(), x.data])
    part[0] = 9.0
    assert whole.tolist() == detached.tolist() == data.tolist() == [0, 9, 2, 3, 4, 5]
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    part, whole = copy.deepcopy((x[4:], x))
    whole.mul_(2)
    assert part.tolist() == [8, 10]
    assert copy.deepcopy(x.reshape(2, 3).T).stride() == (1, 3)
    assert copy.deepcopy(ex.ones(1).expand(3)).stride() == (0,)
    assert copy.deepcopy(x.flip(0)[::2]).tolist() == [5, 3, 1]
    assert copy.deepcopy(ex.empty(0, 3)).shape == (0, 3)


def test_deepcopy_of_a_view_counts_writes_with_its_base() -> None:
    x = ex.arange(3.0)
    whole, part = copy.deepcopy((x, x[:2]))
    w = ex.ones(3, requires_grad=True)
    y = w * whole
    part.zero_()
    with pytest.raises(OverwrittenError):
        y.sum().backward()


def test_deepcopy_keeps_tied_weights_tied_and_buffers_on_one_memory() -> None:
    model = ex.nn.Sequential(ex.nn.Linear(2, 2), ex.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    model.register_buffer("table", ex.zeros(4))
    model.register_buffer("head", model.table[:2])
    copied = copy.deepcopy(model)
    assert copied[0].weight is copied[1].weight
    copied.head.fill_(1.0)
    assert copied.table.tolist() == [1, 1, 0, 0]
    assert model.table.tolist() == [0, 0, 0, 0]


def test_data_of_another_shape_is_refused_where_a_gradient_could_not_follow() -> None:
    x = ex.ones(3, requires_grad=True)
    y = x * 2
    with pytest.raises(ShapeError, match=r"made by mul as \(3,\).*shape \(5,\).*x = value"):
        y.data = ex.zeros(5)
    y.data = ex.zeros(3)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    x.data = ex.zeros(5)
    assert x.shape == (5,)
    with pytest.raises(DtypeError, match="only floating tensors"):
        x.data = ex.tensor([1, 2])
    constant = ex.ones(3)
    constant.data = ex.tensor([1, 2])
    assert constant.dtype is ex.int64


def test_a_tensor_that_requires_grad_becomes_an_array_where_nothing_is_recorded():
    x = ex.ones(2, requires_grad=True)
    with pytest.raises(AutogradError, match="NumPy would not record"):
        x.numpy()
    with ex.no_grad():
        assert x.numpy().tolist() == [1, 1]
