"""autocast changes no number and answers questions as PyTorch does."""

from __future__ import annotations

import threading

import pytest

import extempo as ex
from extempo import amp
from extempo.cpu import amp as cpu_amp
from extempo.errors import DtypeError


def test_numbers_inside_are_those_outside():
    x = ex.randn(4, 4)
    with amp.autocast("cpu", dtype=ex.bfloat16):
        inside = x @ x
    assert inside.dtype is ex.float32
    assert inside.equal(x @ x)


def test_blocks_nest_and_end_with_an_exception():
    def fail():
        with amp.autocast(device_type="cpu", dtype=ex.bfloat16, cache_enabled=False):
            raise KeyError(amp.get_autocast_dtype("cpu"))

    assert not amp.is_autocast_enabled("cpu")
    with amp.autocast("cpu", dtype=ex.float16) as block:
        assert amp.is_autocast_enabled("cpu")
        assert not amp.is_autocast_enabled()
        assert amp.get_autocast_dtype("cpu") is ex.float16
        with amp.autocast("cpu", enabled=False):
            assert not amp.is_autocast_enabled("cpu")
        with block, pytest.raises(KeyError, match="bfloat16"):
            fail()
        assert amp.get_autocast_dtype("cpu") is ex.float16
    assert not amp.is_autocast_enabled("cpu")
    assert amp.get_autocast_dtype("cpu") is ex.bfloat16


def test_as_a_decorator_it_holds_during_each_call():
    @amp.autocast("cpu")
    def depth(n):
        return [amp.is_autocast_enabled("cpu"), *(depth(n - 1) if n else [])]

    assert depth(2) == [True, True, True]
    assert depth.__name__ == "depth"
    assert not amp.is_autocast_enabled("cpu")


def test_a_block_in_one_thread_is_not_seen_in_another():
    seen = []
    with amp.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append(amp.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()
    assert seen == [False]


def test_devices_and_dtypes_that_are_not_there_switch_it_off_with_a_warning():
    with pytest.warns(UserWarning, match="no device 'cuda'"):
        block = amp.autocast("cuda", dtype=ex.float16)
    with block:
        assert not amp.is_autocast_enabled("cuda")
        assert not amp.is_autocast_enabled("cpu")
    with pytest.warns(UserWarning, match="expected bfloat16 or float16"):
        block = amp.autocast("cpu", dtype=ex.float32)
    with block:
        assert not amp.is_autocast_enabled("cpu")
    amp.autocast("cuda", enabled=False)
    with pytest.raises(DtypeError, match="expected one of cpu"):
        amp.autocast("gpu")
    with pytest.raises(DtypeError, match="expected a device type"):
        amp.autocast(True)
    assert amp.is_autocast_available("cpu")
    assert not amp.is_autocast_available("cuda")


def test_custom_functions_pass_through():
    class Square(ex.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=ex.float32)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return 2 * x * gradient

    x = ex.tensor([3.0], requires_grad=True)
    with amp.autocast("cpu"):
        Square.apply(x).backward()
    assert x.grad.tolist() == [6.0]


def test_the_older_spelling_works():
    with cpu_amp.autocast(enabled=True, dtype=ex.bfloat16):
        assert amp.is_autocast_enabled("cpu")
    assert cpu_amp.GradScaler(init_scale=4.0).get_scale() == 4.0
