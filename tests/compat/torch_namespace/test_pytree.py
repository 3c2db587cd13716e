"""Trees of containers."""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

from extempo.compat.torch_namespace import pytree

Pair = namedtuple("Pair", "left right")
TREE = {"a": [1, (2, None)], "b": Pair(3, OrderedDict(c=4)), "d": ()}


def test_a_tree_is_taken_apart_and_put_together():
    leaves, spec = pytree.tree_flatten(TREE)
    assert leaves == [1, 2, None, 3, 4]
    assert spec.num_leaves == 5
    rebuilt = spec.unflatten(leaves)
    assert rebuilt == TREE
    assert isinstance(rebuilt["b"], Pair)
    assert isinstance(rebuilt["b"].right, OrderedDict)


def test_functions_run_on_leaves_of_one_or_several_trees():
    assert pytree.tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)]) == [11, (22,)]
    assert pytree.tree_map_only(int, str, [1, "x", 2.0]) == ["1", "x", 2.0]
    assert pytree.tree_all(bool, [1, (2,)])
    assert not pytree.tree_any(bool, [0, (None,)])
    assert pytree.tree_leaves([(1, 2), 3], is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2), 3]


def test_the_wrong_number_of_leaves_is_an_error():
    with pytest.raises(ValueError, match="1 leaves for a structure of 2"):
        pytree.tree_unflatten([1], pytree.tree_structure((1, 2)))


def test_classes_of_the_user_become_containers(monkeypatch):
    class Box:
        def __init__(self, content):
            self.content = content

    monkeypatch.setattr(pytree, "SUPPORTED_NODES", dict(pytree.SUPPORTED_NODES))
    pytree.register_pytree_node(Box, lambda box: ((box.content,), None), lambda children, context: Box(*children))
    assert pytree.tree_map(lambda x: x + 1, [Box(1)])[0].content == 2


def test_libraries_see_which_nodes_there_are():
    assert list in pytree.SUPPORTED_NODES
    assert pytree._get_node_type({}) is dict
    assert pytree.tree_is_leaf(1.0)
    assert not pytree.tree_is_leaf([1.0])
    assert pytree._dict_unflatten(*pytree._dict_flatten({"a": 1})) == {"a": 1}


def test_children_come_with_their_places():
    assert pytree._dict_flatten_with_keys({"a": 1}) == ([(pytree.MappingKey("a"), 1)], ["a"])
    assert pytree._list_flatten_with_keys([5]) == ([(pytree.SequenceKey(0), 5)], None)
    places = (pytree.MappingKey("a"), pytree.SequenceKey(0), pytree.GetAttrKey("b"))
    assert "".join(map(str, places)) == "['a'][0].b"


def test_more_containers_and_questions():
    tree = {"a": deque([1, 2], maxlen=3), "b": defaultdict(list, c=3)}
    doubled = pytree.tree_map(lambda x: 2 * x, tree)
    assert doubled == {"a": deque([2, 4]), "b": {"c": 6}}
    assert (doubled["a"].maxlen, doubled["b"].default_factory) == (3, list)
    assert list(pytree.tree_iter(tree)) == [1, 2, 3]
    seen = []
    assert pytree.tree_map_(seen.append, tree) is tree
    assert seen == [1, 2, 3]
    assert pytree.is_namedtuple_instance(namedtuple("Pair", "a b")(1, 2))
    assert not pytree.is_namedtuple_instance((1, 2))
    assert pytree.is_structseq_instance(time.localtime())
