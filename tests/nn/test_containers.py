"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

import copy
import pickle

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, DtypeError, IndexRangeError, UnsupportedError


class Add(nn.Module):
    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = nn.Parameter(ex.tensor(float(number)))

    def forward(self, x: ex.Tensor) -> ex.Tensor:
        return x + self.number

    def extra_repr(self) -> str:
        return str(int(self.number.item()))


def numbers(modules) -> list[int]:
    return [int(m.number.item()) for m in modules]


def names(module: nn.Module) -> list[str]:
    return [name for name, _ in module.named_children()]


# ---- Sequential


def test_sequential_passes_its_input_through_all():
    net = nn.Sequential(Add(1), Add(2))
    assert net(ex.tensor(0.0)).item() == 3.0
    assert nn.Sequential()(5) == 5
    assert [n for n, _ in net.named_parameters()] == ["0.number", "1.number"]


@pytest.mark.parametrize("kind", [nn.Sequential, lambda *m: nn.ModuleList(m)], ids=["Sequential", "ModuleList"])
def test_sequences_behave_like_lists(kind):
    net = kind(Add(0), Add(1), Add(2), Add(3))
    assert len(net) == 4
    assert numbers(net[1:3]) == [1, 2]
    assert type(net[1:3]) is type(net)
    assert numbers([net[-1], net[0]]) == [3, 0]
    net[-1] = Add(9)
    assert numbers(net) == [0, 1, 2, 9]
    del net[1]
    assert numbers(net) == [0, 2, 9]
    assert names(net) == ["0", "1", "2"]
    net.insert(1, Add(5))
    net.append(Add(6))
    net.extend([Add(7), Add(8)])
    assert numbers(net) == [0, 5, 2, 9, 6, 7, 8]
    assert names(net) == list("0123456")
    del net[::2]
    assert numbers(net) == [5, 9, 7]
    assert numbers([net.pop(0), net.pop()]) == [5, 7]
    assert names(net) == ["0"]
    net += [Add(4)]
    assert numbers(net + kind(Add(3))) == [9, 4, 3]
    net.insert(len(net), Add(2))
    net.insert(-1, Add(1))
    assert numbers(net) == [9, 4, 1, 2]


@pytest.mark.parametrize("kind", [nn.Sequential, lambda *m: nn.ModuleList(m)], ids=["Sequential", "ModuleList"])
def test_sequences_refuse_what_is_no_module_or_not_there(kind):
    net = kind(Add(1))
    for wrong in (lambda: net.append(3), lambda: net.insert(0, "x"), lambda: net.__setitem__(0, 3), lambda: kind(3)):
        with pytest.raises(DtypeError, match="expected a Module"):
            wrong()
    with pytest.raises(DtypeError, match="use append"):
        net.extend(3)
    for wrong in (lambda: net[1], lambda: net[-2], lambda: net.pop(4), lambda: net.insert(5, Add(1))):
        with pytest.raises(IndexRangeError):
            wrong()
    assert numbers(net) == [1]


def test_sequential_with_names_keeps_them():
    net = nn.Sequential({"one": Add(1), "two": Add(2), "three": Add(3)})
    assert names(net[1:]) == ["two", "three"]
    del net[0]
    assert names(net) == ["two", "three"]
    assert net.two is net[0]


def test_sequential_can_be_repeated():
    net = nn.Sequential(Add(1), Add(2))
    assert numbers(net * 2) == numbers(2 * net) == [1, 2, 1, 2]
    net *= 3
    assert numbers(net) == [1, 2] * 3
    assert net[0] is net[2]
    with pytest.raises(ArgumentError):
        net * 0


def test_a_module_list_cannot_be_called():
    with pytest.raises(UnsupportedError, match="no forward"):
        nn.ModuleList([Add(1)])(ex.tensor(0.0))
    with pytest.raises(UnsupportedError, match="no forward"):
        nn.ModuleDict()(ex.tensor(0.0))


def test_equal_neighbours_stand_on_one_line():
    text = repr(nn.ModuleList([Add(1), Add(1), Add(2), Add(1)]))
    assert text == "ModuleList(\n  (0-1): 2 x Add(1)\n  (2): Add(2)\n  (3): Add(1)\n)"
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_extending_a_list_by_itself_ends():
    net = nn.ModuleList([Add(1)])
    net.extend(net)
    assert numbers(net) == [1, 1]


# ---- ModuleDict


def test_a_module_dict_behaves_like_a_dict():
    net = nn.ModuleDict({"a": Add(1)})
    net["b"] = Add(2)
    net.update([("c", Add(3))])
    net.update(nn.ModuleDict({"a": Add(4)}))
    assert list(net) == list(net.keys()) == ["a", "b", "c"]
    assert numbers(net.values()) == [4, 2, 3]
    assert [key for key, _ in net.items()] == ["a", "b", "c"]
    assert "a" in net
    assert len(net) == 3
    assert numbers([net.pop("b"), net["c"]]) == [2, 3]
    del net["c"]
    assert [n for n, _ in net.named_parameters()] == ["a.number"]
    net.clear()
    assert len(net) == 0
    with pytest.raises(KeyError):
        net["a"]
    with pytest.raises(KeyError, match="already"):
        net["keys"] = Add(1)
    with pytest.raises(DtypeError):
        net["x"] = 3
    with pytest.raises(DtypeError):
        net.update(3)
    with pytest.raises(ArgumentError):
        net.update([("a", Add(1), 3)])


# ---- ParameterList


def test_a_parameter_list_makes_parameters_of_tensors():
    held = nn.ParameterList([ex.ones(2), nn.Parameter(ex.zeros(1)), "text"])
    assert len(held) == 3
    assert [n for n, _ in held.named_parameters()] == ["0", "1"]
    assert held[-1] == "text"
    assert isinstance(held[0], nn.Parameter)
    held.append(ex.ones(3)).extend([ex.ones(4)])
    held += [ex.ones(5)]
    assert [len(p) for p in held][3:] == [3, 4, 5]
    held[0] = ex.zeros(7)
    assert held[0].shape == (7,)
    assert isinstance(held[:2], nn.ParameterList)
    assert held[:2][0] is held[0]
    with pytest.raises(IndexRangeError):
        held[6]
    with pytest.raises(DtypeError, match="append"):
        held.extend(ex.ones(2))
    assert "(0): Parameter containing: [extempo.float32 of size 7]" in repr(held)
    assert "(2): Object of type: str" in repr(held)
    assert list(held.state_dict()) == ["0", "1", "3", "4", "5"]


# ---- ParameterDict


def test_a_parameter_dict_behaves_like_a_dict():
    held = nn.ParameterDict({"a": ex.ones(1)})
    held["b"] = ex.ones(2)
    assert list(held) == ["a", "b"]
    assert list(reversed(held)) == ["b", "a"]
    assert isinstance(held["a"], nn.Parameter)
    assert held.get("c") is None
    assert held.get("c", 3) == 3
    assert held.setdefault("c", ex.ones(3)).shape == (3,)
    joined = held | {"d": ex.ones(4)}
    assert list(joined) == ["a", "b", "c", "d"]
    assert joined["a"] is held["a"]
    assert list({"z": ex.ones(1)} | held) == ["z", "a", "b", "c"]
    held |= {"a": ex.zeros(9)}
    assert held["a"].shape == (9,)
    assert held.pop("b").shape == (2,)
    assert held.popitem()[0] == "c"
    assert held.copy()["a"] is held["a"]
    assert list(held.fromkeys(["x", "y"], 3).values()) == [3, 3]
    assert "(a): Parameter containing" in repr(held)
    del held["a"]
    held.clear()
    for wrong in (lambda: held["a"], lambda: held.popitem(), lambda: held.pop("a"), lambda: held.__delitem__("a")):
        with pytest.raises(KeyError):
            wrong()
    with pytest.raises(KeyError, match="attribute"):
        held["training"] = ex.ones(1)
    with pytest.raises(DtypeError):
        held[3] = ex.ones(1)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_containers_copy_and_pickle(duplicate):
    for held in (
        nn.Sequential(Add(1), Add(2)),
        nn.ModuleList([Add(1)]),
        nn.ModuleDict({"a": Add(1)}),
        nn.ParameterList([ex.ones(1), "text"]),
        nn.ParameterDict({"a": ex.ones(1)}),
    ):
        other = duplicate(held)
        assert repr(other) == repr(held)
        assert list(other.state_dict()) == list(held.state_dict())
        assert len(other) == len(held)


def test_none_is_an_empty_place_in_lists_and_dicts():
    layers = nn.ModuleList([nn.Linear(2, 2), None])
    layers.append(None)
    assert [layer is None for layer in layers] == [False, True, True]
    assert len(list(layers.parameters())) == 2
    assert list(layers.state_dict()) == ["0.weight", "0.bias"]
    assert "(1-2): 2 x None" in repr(layers)
    heads = nn.ModuleDict({"a": nn.Linear(2, 2), "b": None})
    assert heads["b"] is None
    assert [name for name, _ in heads.named_children()] == ["a"]


def test_what_is_no_layer_is_refused_with_what_was_meant():
    with pytest.raises(DtypeError, match=r"got a list; give its members one by one: \*layers"):
        nn.Sequential([nn.Linear(3, 2), nn.ReLU()])
    with pytest.raises(DtypeError, match=r"got the function relu; .* F\.relu has nn\.ReLU\(\)"):
        nn.Sequential(nn.Linear(3, 2), nn.functional.relu)
    with pytest.raises(DtypeError, match=r"got the class ReLU; make one: ReLU\(\.\.\.\)"):
        nn.Sequential(nn.ReLU)
    with pytest.raises(DtypeError, match="expected a Module, got int"):
        nn.ModuleList([3])
