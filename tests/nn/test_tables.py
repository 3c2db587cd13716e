"""The tables of a module, which its attributes mirror."""

from __future__ import annotations

import gc
import weakref

import extempo as ex
from extempo import nn

from .models import Net, Scale


def test_the_tables_and_the_attributes_are_one():
    m = Scale()
    other = ex.zeros(2)
    m._parameters["weight"] = other
    assert m.weight is other
    popped = m._buffers.pop("seen")
    assert isinstance(popped, ex.Tensor)
    assert not hasattr(m, "seen")
    m._buffers.update(late=ex.ones(1))
    m._modules |= {"child": nn.Module()}
    assert m.late.tolist() == [1.0]
    assert isinstance(m.child, nn.Module)
    assert m._buffers.setdefault("late") is m.late
    name, value = m._modules.popitem()
    assert (name, type(value)) == ("child", nn.Module)
    assert m._buffers.pop("nothing", 5) == 5
    m._buffers.clear()
    assert not hasattr(m, "late")


def test_a_module_goes_away_without_a_garbage_collection():
    gc.collect()
    gc.disable()
    try:
        m = Net()
        gone = weakref.ref(m)
        del m
        assert gone() is None
    finally:
        gc.enable()
