"""Devices, layouts and memory formats: names that can be spoken, of which there are few."""

from __future__ import annotations

import pickle

import pytest

import extempo as ex
from extempo.core.device import memory_order, require_cpu, require_strided
from extempo.errors import DtypeError, ShapeError, UnsupportedError


def test_devices_are_named_compared_and_pickled():
    assert repr(ex.device("cpu")) == "device(type='cpu')"
    assert str(ex.device("cpu:0")) == "cpu:0"
    assert ex.device("cpu", 1).index == 1
    assert ex.device(ex.device("cpu")) == ex.device("cpu")
    assert ex.device("cpu") != ex.device("cpu:0")
    assert ex.zeros(2).device != ex.device("cuda")
    assert ex.device("cuda").type == "cuda"
    assert pickle.loads(pickle.dumps(ex.device("cpu:0"))) == ex.device("cpu:0")
    device = ex.device("cuda" if ex.cuda.is_available() else "cpu")
    assert ex.zeros(2, device=device).to(device).device == device
    with device:
        assert ex.zeros(2).device == device
    for bad in ("foo", "cpu:x", 3.5, ("cpu", 0)):
        with pytest.raises(DtypeError, match="device"):
            ex.device(bad)
    assert ex.get_default_device() == ex.device("cpu")
    ex.set_default_device("cpu")
    with pytest.raises(UnsupportedError, match="set_default_device"):
        ex.set_default_device("cuda")


@pytest.mark.parametrize(
    ("wanted", "ndim", "order"),
    [
        (None, 3, None),
        (ex.preserve_format, 2, None),
        (ex.contiguous_format, 3, (0, 1, 2)),
        (ex.contiguous_format, 0, ()),
        (ex.channels_last, 4, (0, 2, 3, 1)),
        (ex.channels_last_3d, 5, (0, 2, 3, 4, 1)),
    ],
)
def test_a_memory_format_orders_dimensions(wanted, ndim, order):
    assert memory_order(wanted, ndim, "op") == order


def test_a_memory_format_that_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="op: channels_last orders 4-dim tensors, this one has 3"):
        memory_order(ex.channels_last, 3, "op")
    with pytest.raises(ShapeError, match="channels_last_3d orders 5-dim"):
        memory_order(ex.channels_last_3d, 4, "op")
    with pytest.raises(DtypeError, match="expected a memory format"):
        memory_order("channels_last", 4, "op")


def test_only_the_cpu_is_a_place():
    for place in (None, "cpu", ex.device("cpu"), ex.device("cpu:1")):
        require_cpu(place, "op")
    for place, message in (("cuda:1", "no device 'cuda:1'"), ("meta", "without memory"), (0, "names an accelerator")):
        with pytest.raises(UnsupportedError, match=message):
            require_cpu(place, "op")


def test_layouts_and_formats_stay_the_same_objects_in_copies():
    for one in (ex.strided, ex.jagged, ex.channels_last, ex.contiguous_format):
        assert pickle.loads(pickle.dumps(one)) is one
    require_strided(ex.strided, "op")
    with pytest.raises(UnsupportedError, match=r"ex\.ragged"):
        require_strided(ex.jagged, "op")
    with pytest.raises(UnsupportedError, match="strided tensors only"):
        require_strided("sparse", "op")
