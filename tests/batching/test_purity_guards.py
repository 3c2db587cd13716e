"""Whatever a function may read from Python is noticed when it changes, and nothing else is."""

from __future__ import annotations

import argparse
import functools
import gc
import sys
import types
import weakref

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn
from extempo.batching.purity_guards import PurityGuards, look_again
from extempo.nn.tables import WATCHED

SCALE = 2.0
TABLE = [1.0, 2.0]
LARGE = list(range(5_000))
CONFIG = types.SimpleNamespace(depth=2, inner=types.SimpleNamespace(names=["a"]))


def helper(x):
    return x * SCALE


def reads_a_global(x):
    return x + SCALE


def reads_through_a_helper(x):
    return [helper(y) for y in x]


def reads_a_list(x):
    return x * TABLE[0]


def reads_a_large_list(x):
    return x * LARGE[3]


def reads_an_object(x):
    return x * CONFIG.depth


def reads_a_function_of_extempo(x):
    return F.relu(x)


def reads_a_builtin(x, y):
    return max(x, y)


class Settings:
    factor = 3.0

    def __init__(self):
        self.offset = 1.0

    def shift(self, x):
        return x + self.offset

    @property
    def double(self):
        return 2 * self.factor

    @classmethod
    def named(cls):
        return cls.factor

    def __call__(self, x):
        return x


class Slotted:
    __slots__ = ("factor",)

    def __init__(self):
        self.factor = 1.0


SETTINGS = Settings()


def reads_a_method(x):
    return SETTINGS.shift(x) * SETTINGS.double + SETTINGS.named()


def calls_an_object(x):
    return SETTINGS(x)


class Net(nn.Module):
    width = 4

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTMCell(3, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.activation = F.relu
        self.sizes = [1, 2]
        self.scale = 1.0
        self.register_buffer("mean", ex.zeros(4))

    def forward(self, x):
        return self.mix(self.layers[0](x)) * self.scale * self.width

    def mix(self, x):
        return self.activation(x) + self.mean


def test_a_leaf_module_is_the_same_until_something_is_set():
    cell = nn.LSTMCell(3, 4)
    reads = PurityGuards(cell)
    assert reads.same()
    cell.eval()
    assert not reads.same()
    cell.train()
    assert reads.same()
    cell.hidden_size = 4
    assert reads.same()
    cell.weight_ih = nn.Parameter(ex.zeros(16, 3))
    assert not reads.same()


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net, "scale", 2.0),
        lambda net: setattr(net, "scale", 1),  # another type: another result type
        lambda net: setattr(net, "new", 1),
        lambda net: delattr(net, "scale"),
        lambda net: net.eval(),
        lambda net: net.lstm.eval(),
        lambda net: setattr(net.lstm, "bias", None),
        lambda net: net.sizes.append(3),
        lambda net: net.sizes.__setitem__(0, 7),
        lambda net: setattr(net, "activation", F.gelu),
        lambda net: setattr(net, "lstm", nn.LSTMCell(3, 4)),
        lambda net: net.layers.__setitem__(1, nn.Linear(4, 4)),
        lambda net: net.layers.append(nn.Linear(4, 4)),
        lambda net: net.layers[1].register_parameter("bias", None),
        lambda net: net.layers[1]._parameters.__setitem__("weight", nn.Parameter(ex.zeros(4, 4))),
        lambda net: setattr(net, "mean", ex.ones(4)),
        lambda net: setattr(net, "forward", lambda x: x),
        lambda net: setattr(net, "mix", types.MethodType(lambda self, x: x, net)),
        lambda net: setattr(net, "__class__", type("Other", (Net,), {})),
        lambda net: net.layers[0].register_forward_hook(lambda *args: None),
    ],
)
def test_every_change_of_a_module_is_noticed(change):
    net = Net()
    reads = PurityGuards(net)
    assert reads.same()
    change(net)
    assert not reads.same()
    assert PurityGuards(net).same()


def test_values_of_parameters_are_no_part_of_it():
    net = Net()
    reads = PurityGuards(net)
    with ex.no_grad():
        net.lstm.weight_ih.fill_(3.0)
    net.load_state_dict(Net().state_dict())
    assert reads.same()


def test_other_modules_may_change():
    cell, other = nn.LSTMCell(3, 4), Net()
    WATCHED.discard(id(other))  # a module that is gone may have had this id, which costs a look and no more
    reads = PurityGuards(cell)
    before = reads._seen
    other.scale = 3.0
    assert reads.same()
    assert reads._seen == before


def test_attributes_set_behind_setattr_are_noticed_at_the_next_look():
    net = Net()
    reads = PurityGuards(net)
    net.__dict__["scale"] = 5.0
    look_again()
    assert not reads.same()


@pytest.mark.parametrize("name", ["forward", "mix"])
def test_a_method_replaced_in_its_class_is_noticed(monkeypatch, name):
    reads = PurityGuards(Net())
    monkeypatch.setattr(Net, name, lambda self, x: x)
    assert not reads.same()


def test_a_method_of_a_layer_replaced_in_its_class_is_noticed(monkeypatch):
    cell = nn.LSTMCell(3, 4)
    reads = PurityGuards(cell)
    monkeypatch.setattr(nn.LSTMCell, "forward", lambda self, x: x)
    assert not reads.same()


def test_a_class_attribute_is_noticed(monkeypatch):
    net = Net()
    reads = PurityGuards(net)
    monkeypatch.setattr(Net, "width", 5)
    assert not reads.same()


@pytest.mark.parametrize("fn", [reads_a_global, reads_through_a_helper])
def test_a_global_value_is_noticed(monkeypatch, fn):
    reads = PurityGuards(fn)
    assert reads.same()
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 2.0 * 1.0)
    assert reads.same()
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3.0)
    assert not reads.same()
    assert reads.changed() == "SCALE"


def test_a_name_of_python_that_gets_another_meaning_is_noticed(monkeypatch):
    reads = PurityGuards(reads_a_builtin)
    monkeypatch.setattr(sys.modules[__name__], "max", min, raising=False)
    assert not reads.same()


def test_a_helper_that_is_defined_anew_is_noticed(monkeypatch):
    reads = PurityGuards(reads_through_a_helper)
    monkeypatch.setattr(sys.modules[__name__], "helper", lambda x: x)
    assert not reads.same()


def test_a_helper_whose_code_is_exchanged_is_noticed(monkeypatch):
    reads = PurityGuards(reads_through_a_helper)
    monkeypatch.setattr(helper, "__code__", (lambda x: x).__code__)
    assert not reads.same()


def test_a_function_of_extempo_that_is_replaced_is_noticed(monkeypatch):
    reads = PurityGuards(reads_a_function_of_extempo)
    monkeypatch.setattr(F, "relu", lambda x: x)
    assert not reads.same()


@pytest.mark.parametrize(("fn", "container"), [(reads_a_list, TABLE), (reads_a_large_list, LARGE)])
def test_the_content_of_a_list_is_noticed(fn, container):
    reads = PurityGuards(fn)
    before = container[0]
    container[0] = before + 1
    look_again()
    assert not reads.same()
    container[0] = before
    assert reads.same()


def test_the_attributes_of_an_object_are_noticed(monkeypatch):
    reads = PurityGuards(reads_an_object)
    monkeypatch.setattr(CONFIG, "depth", 3)
    assert not reads.same()
    monkeypatch.undo()
    assert reads.same()
    CONFIG.inner.names.append("b")
    assert not reads.same()
    CONFIG.inner.names.pop()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offset", 2.0),
        ("shift", lambda self, x: x),
        ("double", property(lambda self: 1.0)),
        ("named", classmethod(lambda cls: 1.0)),
        ("factor", 4.0),
    ],
)
def test_methods_and_attributes_of_an_object_are_noticed(monkeypatch, name, value):
    reads = PurityGuards(reads_a_method)
    assert reads.same()
    monkeypatch.setattr(SETTINGS if name == "offset" else Settings, name, value)
    assert not reads.same()


def test_the_call_of_an_object_is_noticed(monkeypatch):
    reads = PurityGuards(calls_an_object)
    monkeypatch.setattr(Settings, "__call__", lambda self, x: -x)
    assert not reads.same()


def test_slots_are_noticed():
    held = Slotted()
    reads = PurityGuards(lambda x: x * held.factor)
    held.factor = 2.0
    assert not reads.same()


def test_a_closure_is_noticed():
    factor, weights = 1.0, [ex.ones(2)]

    def set_to(value):
        nonlocal factor
        factor = value

    reads = PurityGuards(lambda x: x * factor @ weights[0])
    assert reads.same()
    set_to(2.0)
    assert not reads.same()
    set_to(1.0)
    assert reads.same()
    weights[0] = ex.ones(2)
    assert not reads.same()


def test_defaults_are_noticed():
    def function(x, factor=2.0, *, sizes=(1, 2), table=[1]):  # noqa: B006 - that is what is tested
        return x * factor

    reads = PurityGuards(function)
    function.__kwdefaults__["table"].append(2)
    assert not reads.same()
    reads = PurityGuards(function)
    function.__kwdefaults__["sizes"] = (1, 3)
    assert not reads.same()
    reads = PurityGuards(function)
    function.__defaults__ = (3.0,)
    assert not reads.same()


def test_partials_wrappers_and_bound_methods_are_followed(monkeypatch):
    @functools.wraps(reads_a_global)
    def wrapper(*args):
        return reads_a_global(*args)

    for fn in (
        functools.partial(reads_a_global),
        wrapper,
        ex.no_grad()(reads_a_global),
        functools.lru_cache(reads_a_global),
        [reads_a_global],
    ):
        reads = PurityGuards(fn)
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules[__name__], "SCALE", 3.0)
            assert not reads.same()
        assert reads.same()
    reads = PurityGuards(SETTINGS.shift)
    monkeypatch.setattr(SETTINGS, "offset", 5.0)
    assert not reads.same()


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ({"a": 1}, lambda d: d.update(a=2)),
        ({"a": 1}, lambda d: d.update(a=True)),
        ({"a": 1}, lambda d: d.update(b=2)),
        ({1, 2}, lambda s: s.add(3)),
        (np.arange(3), lambda a: a.__setitem__(0, 7)),
        (np.array(1.0), lambda a: a.__setitem__((), 2.0)),
        ([[1], [2]], lambda x: x[1].append(3)),
        (([1],), lambda x: x[0].append(3)),
        (bytearray(b"ab"), lambda b: b.append(1)),
        (argparse.Namespace(rate=0.1), lambda n: setattr(n, "rate", 0.2)),
        ([0.0], lambda x: x.__setitem__(0, -0.0)),
    ],
)
def test_contents_are_noticed(value, change):
    reads = PurityGuards(lambda: value)
    assert reads.same()
    change(value)
    assert not reads.same()
    assert reads.changed() in ("value", "Namespace")


def test_captured_tensors_keep_their_type_and_tracking():
    weight = nn.Parameter(ex.ones(2))
    reads = PurityGuards(lambda x: x * weight)
    reads.capture([weight])
    assert reads.same()
    weight.requires_grad_(False)
    assert not reads.same()
    weight.requires_grad_()
    assert reads.same()
    weight.data = ex.ones(2, dtype=ex.float64)
    assert not reads.same()


def test_a_module_is_not_kept_alive():
    net = Net()
    reads = PurityGuards(net)
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None
    look_again()
    assert not reads.same()


def test_cycles_end():
    def first(x):
        return second(x)

    def second(x):
        return first(x) if x else [ring]

    ring: list = []
    ring.append(ring)
    assert PurityGuards(first).same()
