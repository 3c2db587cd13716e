"""What a function can reach: globals, closures, defaults, attributes of objects and modules."""

from __future__ import annotations

import functools
import math

import extempo as ex
from extempo import nn
from extempo.batching.purity_guards import PurityGuards
from extempo.batching.read_search import searched

SCALE = 2.0
TABLE = [1.0, 2.0]


def helper(x):
    return x * SCALE


class Options:
    def __init__(self):
        self.depth = 2

    def factor(self):
        return TABLE[0]


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


def test_what_super_finds_is_followed():
    class Above:
        def step(self):
            return helper()

    class Below(Above):
        def step(self):
            return super().step()

    def helper():
        return 1

    below = Below()
    search = searched(lambda: below.step())
    assert id(vars(Above)["step"]) in search.visited
    assert id(helper) in search.visited


def test_no_code_of_the_objects_that_are_met_runs():
    def used(*args):
        raise AssertionError("a search must not use what it finds")

    class Descriptor:
        __get__ = __getattr__ = used

    class Lazy:
        __slots__ = ("filled",)
        __getattr__ = __len__ = __bool__ = __call__ = used

        def __init__(self):
            self.filled = [1]

    class Owner:
        value = Descriptor()
        lazy = Lazy()

    owner = Owner()
    search = searched(lambda: owner.value + owner.lazy.missing + owner.lazy.filled)
    assert id(Owner.lazy.filled) in search.visited
    PurityGuards(search=search).same()
