"""Which reads, calls and changes are known to be free of effects."""

from __future__ import annotations

import abc
import functools
import operator
import threading
from collections import OrderedDict, UserList, defaultdict, namedtuple

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.batching.checked_bytecode import CheckedRun
from extempo.batching.pure_calls import Impure, is_layer_code, is_tuple
from extempo.nn import functional as F


class Plain:
    value = 1

    def __init__(self):
        self.items = [1, 2]


class Slotted:
    __slots__ = ("x",)


class Spying:
    """Whose every use is one that must not happen."""

    def _spy(self, *args):
        raise AssertionError("the object was used")

    __eq__ = __len__ = __bool__ = __iter__ = __getitem__ = __add__ = __radd__ = __contains__ = __call__ = _spy
    __getattr__ = __hash__ = __format__ = __index__ = __float__ = _spy  # type: ignore[assignment]


class Abstract(abc.ABC):  # noqa: B024 # what it does when it is asked is all there is to it
    @classmethod
    def __subclasshook__(cls, other):
        raise AssertionError("the class was asked")


class Pretending:
    @property  # type: ignore[misc]
    def __class__(self):
        raise AssertionError("the object was asked")


@pytest.fixture
def calls():
    return CheckedRun(object())


REFUSED = {
    "print": lambda c: c.call(print, (1,), {}),
    "open": lambda c: c.call(open, ("x",), {}),
    "id": lambda c: c.call(id, (1,), {}),
    "hash": lambda c: c.call(hash, (1,), {}),
    "eval": lambda c: c.call(eval, ("1",), {}),
    "setattr": lambda c: c.call(setattr, (Plain(), "value", 2), {}),
    "vars": lambda c: c.call(vars, (Plain(),), {}),
    "numpy": lambda c: c.call(np.exp, (1.0,), {}),
    "manual_seed": lambda c: c.call(ex.manual_seed, (1,), {}),
    "set_default_dtype": lambda c: c.call(ex.set_default_dtype, (ex.float32,), {}),
    "no_grad": lambda c: c.call(ex.no_grad, (), {}),
    "save": lambda c: c.call(ex.save, ({}, "x"), {}),
    "class with slots": lambda c: c.call(Slotted, (), {}),
    "parameter": lambda c: c.call(nn.Parameter, (ex.ones(1),), {}),
    "layer": lambda c: c.call(nn.Linear, (1, 1), {}),
    "sort by a function": lambda c: c.call(sorted, ([1],), {"key": abs}),
    "op on an object": lambda c: c.call(ex.tanh, (Spying(),), {}),
    "op on an array": lambda c: c.call(ex.tensor, (np.ones(1),), {}),
    "cache": lambda c: c.call(functools.cache(lambda: 1), (), {}),
    "tolist": lambda c: c.attribute(ex.ones(1), "tolist"),
    "item": lambda c: c.attribute(ex.ones(1), "item"),
    "numpy of a tensor": lambda c: c.attribute(ex.ones(1), "numpy"),
    "data_ptr": lambda c: c.attribute(ex.ones(1), "data_ptr"),
    "grad": lambda c: c.attribute(ex.ones(1), "grad"),
    "data": lambda c: c.attribute(ex.ones(1), "data"),
    "requires_grad_": lambda c: c.attribute(ex.ones(1), "requires_grad_"),
    "backward": lambda c: c.attribute(ex.ones(1), "backward"),
    "register_hook": lambda c: c.attribute(ex.ones(1), "register_hook"),
    "register_buffer": lambda c: c.call(nn.Identity().register_buffer, ("x", None), {}),
    "train": lambda c: c.call(nn.Identity().train, (), {}),
    "append to a ModuleList": lambda c: c.call(nn.ModuleList().append, (nn.Identity(),), {}),
    "state_dict": lambda c: c.call(nn.Identity().state_dict, (), {}),
    "append": lambda c: c.call([].append, (1,), {}),
    "update": lambda c: c.call({}.update, ({},), {}),
    "set item": lambda c: c.set_item([0], 0, 1),
    "delete item": lambda c: c.delete_item([0], 0),
    "extend in place": lambda c: c.operate(operator.iadd, [0], [1], in_place=True),
    "iterator": lambda c: c.iterate(iter([1])),
    "next": lambda c: c.call(next, (iter([1]),), {}),
    "defaultdict": lambda c: c.item(defaultdict(int), 0),
    "OrderedDict": lambda c: c.item(OrderedDict(a=1), "a"),
    "UserList": lambda c: c.item(UserList([1]), 0),
    "operator": lambda c: c.operate(operator.add, 1, Spying()),
    "truth": lambda c: c.truth(Spying()),
    "length": lambda c: c.call(len, (Spying(),), {}),
    "iteration": lambda c: c.iterate(Spying()),
    "element": lambda c: c.item(Spying(), 0),
    "index": lambda c: c.item([1], Spying()),
    "comparison": lambda c: c.compare(operator.eq, Spying(), 1),
    "comparison in a list": lambda c: c.compare(operator.eq, [Spying()], [1]),
    "membership": lambda c: c.contains([Spying()], 1),
    "membership of a tensor": lambda c: c.contains([ex.ones(1)], 1),
    "identity": lambda c: c.same(ex.ones(1), ex.ones(1)),
    "attribute": lambda c: c.attribute(Spying(), "anything"),
    "call": lambda c: c.call(Spying(), (), {}),
    "membership in values": lambda c: c.contains({"a": Spying()}.values(), 1),
    "membership of an object": lambda c: c.contains(nn.ModuleDict(), Spying()),
    "a key of a dict": lambda c: c.call(c.made({}).setdefault, (Spying(), 1), {}),
    "an element of a set": lambda c: c.call(set, ([Spying()],), {}),
    "pairs": lambda c: c.call(dict, ([Spying()],), {}),
    "keys of pairs": lambda c: c.call(dict, ([(Spying(), 1)],), {}),
    "a search in a list": lambda c: c.call([Spying()].index, (1,), {}),
    "a list beside a tensor": lambda c: c.operate(operator.add, ex.ones(1), [Spying()]),
    "a start that is an object": lambda c: c.call(enumerate, ([1], Spying()), {}),
    "an object of a library": lambda c: c.attribute(threading.local(), "x"),
    "a large list": lambda c: c.item([0] * 2_000, 0),
    "an abstract class": lambda c: c.call(isinstance, (1, Abstract), {}),
    "the class of a pretender": lambda c: c.call(isinstance, (Pretending(), int), {}),
    "unpacking": lambda c: c.dict_to_unpack(OrderedDict()),
    "method of super": lambda c: c.attribute(super(Plain, Plain()), "__init__"),
    "a computed class attribute": lambda c: c.call(getattr, (Plain(), "value"), {}),
}


@pytest.mark.parametrize("what", REFUSED.values(), ids=REFUSED)
def test_what_is_not_known_to_be_pure_is_refused(what, calls):
    with pytest.raises(Impure):
        what(calls)


def test_data_is_tensors_plain_values_and_containers_of_these(calls):
    pair = namedtuple("pair", "a b")
    assert calls.is_data([1, "x", None, ex.ones(1), {"a": (1.0, ex.float32)}, pair(1, 2), ex.ones(2).shape, slice(1)])
    for x in (object(), [object()], {"a": print}, np.ones(1), nn.Identity(), OrderedDict(), [[[Plain()]]]):
        assert not calls.is_data(x)
    around: list[object] = []
    around.append(around)
    assert not calls.is_data(around)


def test_containers_that_the_body_has_made_may_change(calls):
    made = calls.made([1])
    calls.call(made.append, (2,), {})
    calls.set_item(made, 0, 3)
    assert calls.operate(operator.iadd, made, [4], in_place=True) is made
    assert made == [3, 2, 4]
    calls.delete_item(made, 0)
    assert calls.call(list, (made,), {}) == [2, 4]


def test_layers_with_effects_are_refused_wherever_they_are(calls):
    hooked = nn.Linear(2, 2)
    hooked.register_forward_hook(lambda *args: None)
    with pytest.raises(Impure, match="Linear has hooks"):
        calls.call(nn.Sequential(nn.ReLU(), hooked), (ex.ones(2),), {})
    with pytest.raises(Impure):
        calls.call(nn.TransformerEncoderLayer(4, 2, activation=lambda x: print(x) or x), (ex.ones(3, 4),), {})
    assert calls.call(nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), (ex.ones(2),), {}).shape == (2,)


def test_functions_that_pretend_to_be_ops_are_none(calls):
    @functools.wraps(F.relu)
    def relu(x):
        print(x)
        return x

    with pytest.raises(Impure, match="it calls print"):
        calls.call(relu, (ex.ones(1),), {})


def test_named_tuples_are_tuples_if_they_add_no_operator():
    class Loud(namedtuple("pair", "a b")):
        __slots__ = ()

        def __iter__(self):
            raise AssertionError

    assert is_tuple(tuple)
    assert is_tuple(namedtuple("pair", "a b"))
    assert is_tuple(ex.Size)
    assert not is_tuple(Loud)
    assert not is_tuple(list)


def test_code_of_layers_is_known_by_where_it_was_written():
    assert is_layer_code(nn.Linear.forward)
    assert is_layer_code(nn.Linear(1, 1).forward)
    assert not is_layer_code(lambda x: x)
    assert not is_layer_code(F.relu)


def test_layers_of_extempo_run_as_they_are(calls):
    layers = [
        nn.Linear(4, 4),
        nn.LSTM(4, 4),
        nn.MultiheadAttention(4, 2),
        nn.TransformerEncoderLayer(4, 2),
        nn.Dropout(),
    ]
    for layer in (*layers, nn.Conv2d(1, 1, 3), nn.BatchNorm1d(4), nn.Embedding(3, 4), nn.Sequential(nn.Linear(4, 4))):
        assert calls._is_own(layer), layer
    assert not calls._is_own(nn.Sequential(type("Mine", (nn.Module,), {"forward": lambda self, x: x})()))


def test_a_detached_tensor_is_computed(calls):
    assert calls.call(calls.attribute(ex.ones(1), "detach"), (), {}).tolist() == [1.0]


def test_asking_for_parameters_does_not_warn(calls, recwarn):
    module = nn.Identity()
    module.hidden = [nn.Linear(1, 1)]
    for _ in range(6):
        calls.call(module, (ex.ones(1),), {})
    assert not recwarn.list
