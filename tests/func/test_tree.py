"""Nested tuples, lists and dicts: taken apart in order, put together in the same classes."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import pytest

import extempo as ex
from extempo.errors import ShapeError
from extempo.func.tree import leaves, mapped, rebuild, spread, tensors_mapped

Pair = namedtuple("Pair", ["h", "c"])


@pytest.mark.parametrize("tree", [1, (), [], {}, (1, [2, {"a": 3}]), Pair(1, (2,)), OrderedDict(b=1, a=[2]), None])
def test_a_tree_is_rebuilt_as_it_was(tree):
    again = rebuild(tree, iter(leaves(tree)))
    assert again == tree
    assert type(again) is type(tree)


def test_leaves_come_in_the_order_of_the_containers():
    assert leaves({"b": 1, "a": (2, [3, None])}) == [1, 2, 3, None]
    assert leaves([]) == []


def test_only_tensors_are_mapped_by_tensors_mapped():
    x = ex.ones(2)
    assert mapped(str, (1, [2])) == ("1", ["2"])
    got = tensors_mapped(lambda t: t.shape, {"x": x, "n": 3})
    assert got == {"x": (2,), "n": 3}


def test_a_prefix_stands_for_everything_below_it():
    assert spread(0, (1, [2, 3]), "vmap") == [0, 0, 0]
    assert spread((0, None), (1, [2, 3]), "vmap") == [0, None, None]
    assert spread({"a": 1, "b": 2}, {"b": 0, "a": 0}, "vmap") == [2, 1]
    assert spread(0, (), "vmap") == []


@pytest.mark.parametrize(("prefix", "tree"), [((0, 1), (1, 2, 3)), ((0,), 1), ({"a": 0}, {"b": 0}), ((0,), {"a": 1})])
def test_a_prefix_of_another_structure_is_refused(prefix, tree):
    with pytest.raises(ShapeError, match=r"in_dims: .* does not fit the structure"):
        spread(prefix, tree, "in_dims")
