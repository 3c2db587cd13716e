"""Dtypes, devices, orders in memory, and what tensors say of themselves."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import AutogradError, DtypeError, ShapeError, UnsupportedError

CASTS = {
    "float": ex.float32,
    "double": ex.float64,
    "half": ex.float16,
    "bfloat16": ex.bfloat16,
    "long": ex.int64,
    "int": ex.int32,
    "short": ex.int16,
    "char": ex.int8,
    "byte": ex.uint8,
    "bool": ex.bool,
}


def test_to_takes_all_of_pytorchs_forms():
    x = ex.zeros(2, 3)
    other = ex.zeros(1, dtype=ex.int16)
    assert x.to() is x
    assert x.to(None) is x
    assert x.to("cpu") is x
    assert x.to(device="cpu", dtype=ex.float32, non_blocking=True) is x
    assert x.to(ex.float64).dtype is ex.float64
    assert x.to("cpu", ex.float64).dtype is ex.float64
    assert x.to(ex.device("cpu"), ex.float64, False, True).dtype is ex.float64
    assert x.to(other).dtype is ex.int16
    assert x.to(other=other).dtype is ex.int16
    assert x.to(int).dtype is ex.int64
    assert x.to(bool).dtype is ex.bool
    for copied in (
        x.to(ex.float32, False, True),
        x.to(x, False, True),
        x.to("cpu", None, False, True),
        x.to(copy=True),
    ):
        assert copied.data_ptr() != x.data_ptr()
    for arguments in [(3,), ("float64",), (ex.float32, False, False, False), ([],)]:
        with pytest.raises(DtypeError):
            x.to(*arguments)
    with pytest.raises(DtypeError, match="unknown arguments colour"):
        x.to(colour="red")
    with pytest.raises(DtypeError, match="repeated arguments dtype"):
        x.to(ex.float32, dtype=ex.float64)
    with pytest.raises(UnsupportedError, match="to: Extempo runs on the CPU"):
        x.to("cuda")


def test_gradients_flow_back_through_conversions_in_their_own_dtype():
    x = ex.ones(3, requires_grad=True)
    y = x.to(ex.float64, memory_format=ex.contiguous_format) * 2
    y.sum().backward()
    assert x.grad.dtype is ex.float32
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", CASTS)
def test_casts_by_name(name):
    x = ex.tensor([0.0, 1.0, 2.0])
    cast = getattr(x, name)()
    assert cast.dtype is CASTS[name]
    assert (cast is x) == (name == "float")
    assert cast.tolist() == ([False, True, True] if name == "bool" else [0, 1, 2])


def test_floats_that_no_integer_can_hold_become_what_they_become_in_pytorch(recwarn):
    x = ex.tensor([float("nan"), float("inf"), -float("inf"), 1e10, -1.0, 300.0, -1.5])
    low = {"int": -(2**31), "long": -(2**63)}
    assert x.int().tolist() == [low["int"]] * 4 + [-1, 300, -1]
    assert x.long().tolist() == [low["long"]] * 3 + [10**10, -1, 300, -1]
    assert x.byte().tolist() == [0, 0, 0, 0, 255, 44, 255]
    assert x.bool().tolist() == [True] * 7
    assert not recwarn.list


def test_type_names_and_converts():
    x = ex.zeros(2)
    assert x.type() == "extempo.FloatTensor"
    assert x.type(ex.float64).type() == "extempo.DoubleTensor"
    for named in (ex.LongTensor, "torch.LongTensor", "extempo.LongTensor", ex.int64):
        assert x.type(named).dtype is ex.int64
    assert x.type_as(ex.tensor([1])).dtype is ex.int64
    with pytest.raises(UnsupportedError, match="lies on a GPU"):
        x.type("torch.cuda.FloatTensor")
    with pytest.raises(DtypeError, match="expected a dtype or one of"):
        x.type("Matrix")


def test_there_is_no_gpu_and_the_message_says_so():
    x = ex.zeros(2)
    assert x.cpu() is x
    assert x.pin_memory() is x
    assert not x.is_pinned()
    with pytest.raises(UnsupportedError, match=r"drop \.cuda\(\)"):
        x.cuda()


def test_memory_formats_change_strides_and_nothing_else():
    x = ex.arange(2.0 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    for last in (
        x.to(memory_format=ex.channels_last),
        x.contiguous(memory_format=ex.channels_last),
        x.clone(memory_format=ex.channels_last),
        x.float(memory_format=ex.channels_last),
        x.cpu(memory_format=ex.channels_last),
    ):
        assert last.stride() == (60, 1, 15, 3)
        assert last.tolist() == x.tolist()
        assert last.is_contiguous(memory_format=ex.channels_last)
        assert not last.is_contiguous()
        assert last.dim_order() == (0, 2, 3, 1)
        assert last.contiguous().stride() == x.stride()
        assert last.double().stride() == last.stride()
    assert last.contiguous(memory_format=ex.channels_last) is last
    assert not x.is_contiguous(memory_format=ex.channels_last)
    assert not ex.zeros(2, 3).is_contiguous(memory_format=ex.channels_last)
    with pytest.raises(ShapeError, match="channels_last orders 4-dim tensors"):
        ex.zeros(2, 3).contiguous(memory_format=ex.channels_last)
    with pytest.raises(ShapeError, match="preserve_format"):
        x.contiguous(memory_format=ex.preserve_format)
    with pytest.raises(DtypeError, match="expected a memory format"):
        x.clone(memory_format="channels_last")


def test_contiguous_copies_only_where_it_must():
    x = ex.arange(6.0).reshape(2, 3)
    assert x.contiguous() is x
    y = x.t()
    assert not y.is_contiguous()
    assert y.contiguous().stride() == (2, 1)
    assert y.clone().stride() == (1, 3)
    assert y.clone(memory_format=ex.contiguous_format).stride() == (2, 1)
    assert ex.zeros(3, 1, 2)[:, 0].contiguous().is_contiguous()


def test_contiguous_and_clone_pass_gradients_on():
    x = ex.arange(6.0).reshape(2, 3).requires_grad_()
    (x.t().contiguous() * x.t().clone(memory_format=ex.contiguous_format)).sum().backward()
    assert x.grad.tolist() == (2 * x.detach()).tolist()


def test_copy_broadcasts_converts_and_is_differentiable():
    x = ex.zeros(2, 3, dtype=ex.int64)
    assert x.copy_(ex.tensor([1.5, 2.5, 3.5])).tolist() == [[1, 2, 3], [1, 2, 3]]
    with pytest.raises(ShapeError, match="copy_: shape"):
        x.copy_(ex.zeros(2))
    source = ex.ones(3, requires_grad=True)
    target = ex.zeros(2, 3, dtype=ex.float64)
    target.copy_(source)
    (target * 3).sum().backward()
    assert source.grad.tolist() == [6, 6, 6]


def test_fill_and_zero():
    assert ex.zeros(2).long().fill_(2.5).tolist() == [2, 2]
    assert ex.zeros(2).fill_(ex.tensor(2)).tolist() == [2, 2]
    assert ex.ones(2, dtype=ex.bool).zero_().tolist() == [False, False]
    assert ex.zeros(2).bool().fill_(3).tolist() == [True, True]
    value = ex.tensor(2.0, requires_grad=True)
    ex.zeros(3).fill_(value).sum().backward()
    assert value.grad.item() == 3
    with pytest.raises(ShapeError, match="0-dim tensor"):
        ex.zeros(2).fill_(ex.zeros(1))
    with pytest.raises(DtypeError, match="does not fit"):
        ex.zeros(2).byte().fill_(300)


def test_resize_reads_the_storage_again():
    x = ex.arange(6)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert ex.arange(6).view(2, 3).t().resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert ex.arange(6).view(2, 3)[1].resize_(2).tolist() == [3, 4]
    grown = ex.arange(4).resize_(3, 3)
    assert grown.reshape(-1)[:4].tolist() == [0, 1, 2, 3]
    assert ex.zeros(2, 3).resize_as_(ex.zeros(4)).shape == (4,)
    assert ex.zeros(2).resize_(2, 3, 4, 5, memory_format=ex.channels_last).stride() == (60, 1, 15, 3)
    with pytest.raises(AutogradError, match="resize_"):
        ex.zeros(2, requires_grad=True).resize_(3)


def test_set_shares_the_memory_of_its_source():
    x, source = ex.zeros(3), ex.arange(4.0)
    assert x.set_(source).tolist() == [0, 1, 2, 3]
    x[0] = 9
    assert source[0].item() == 9
    assert x.set_().shape == (0,)
    with pytest.raises(DtypeError, match="set_"):
        x.set_(ex.arange(3))


def test_apply_calls_python_for_every_element():
    assert ex.tensor([[1.0, 2.0]]).apply_(lambda v: v * 2).tolist() == [[2, 4]]
    assert ex.tensor([1.0]).to_dense(dtype=ex.float64).dtype is ex.float64
