"""Devices, layouts and memory formats: names that can be spoken, of which there are few."""

from __future__ import annotations

import pickle

import pytest

import extempo as ex
from extempo.errors import DtypeError, UnsupportedError


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
