"""What a function can reach: globals, closures, defaults, attributes of objects and modules."""

from __future__ import annotations

import functools
import math

import extempo as ex
from extempo import nn
from extempo.batching.read_search import ReadSearch

SCALE = 2.0
TABLE = [1.0, 2.0]


def helper(x):
    return x * SCALE


class Options:
    def __init__(self):
        self.depth = 2

    def factor(self):
        return TABLE[0]


def searched(*roots):
    search = ReadSearch()
    for root in roots:
        search.visit(root)
    search.resolve()
    return search


def names(search):
    return {name for _, name, _ in search.items}


def test_globals_of_helpers_are_followed_and_those_of_libraries_are_not():
    found = names(searched(lambda x: helper(x) + math.sin(1.0)))
    assert {"helper", "SCALE", "math", "sin"} <= found
    assert "TABLE" not in found


def test_closures_and_defaults_are_read():
    weight = ex.ones(2)

    def fn(x, bias=weight * 2):
        return x * weight + bias

    search = searched(fn)
    assert id(weight) in search.tensors
    assert len(search.tensors) == 2
    assert tuple(name for _, name, _ in search.attributes) == ("cell_contents", "__code__", "__defaults__")


def test_methods_of_objects_are_found_by_the_names_that_code_asks_for():
    options = Options()
    search = searched(lambda x: x * options.factor())
    assert "TABLE" in names(search)
    assert any(content.name == "Options" for content in search.contents)


def test_modules_are_taken_with_those_below_them():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    search = searched(functools.partial(model.forward))
    assert set(search.modules) == {id(module) for module in model.modules()}
    assert set(search.tensors) == {id(p) for p in model.parameters()}


def test_circles_end():
    options = Options()
    options.self = options
    first = [options]
    first.append(first)
    assert searched(first).contents
