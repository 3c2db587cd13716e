"""What a call in a function's source is of."""

from __future__ import annotations

import ast
import math  # noqa: F401 # for the names in ROLES

import pytest

import extempo as ex
from extempo import nn
from extempo.batching.outlining.callees import Callees, Role
from extempo.nn import functional as F  # noqa: F401 # for the names in ROLES


def helper(x):
    return ex.tanh(x)


def recursive(t):
    return recursive(t[0])


def one(t):
    return other(t)


def other(t):
    return one(t)


def calls_recursive(t):
    return recursive(t)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.config = {"n": 2}

    def pure(self, x):
        return self.linear(x)

    def again(self, t):
        return self.again(t[0])

    @property
    def computed(self):
        raise AssertionError("nobody may ask")

    @staticmethod
    def static(x):
        return x

    def forward(self, x, cell):
        local = helper
        return x, cell, local, closure_of(self)


def closure_of(model):
    inner = ex.tanh

    def fn(x):
        return inner(x), model

    return fn


ROLES = {
    "ex.tanh": Role.OP,
    "F.linear": Role.OP,
    "self.linear": Role.OP,
    "x.softmax": Role.OP,
    "ex.sigmoid(x).chunk": Role.OP,
    "len": Role.BUILTIN,
    "isinstance": Role.BUILTIN,
    "math.sqrt": Role.BUILTIN,
    "helper": Role.FUNCTION,
    "self.pure": Role.FUNCTION,
    "self.static": Role.FUNCTION,
    "cell": Role.FUNCTION,
    "recursive": Role.OUTLINED,
    "calls_recursive": Role.OUTLINED,
    "one": Role.OUTLINED,
    "self.again": Role.OUTLINED,
    "x.visit": Role.OUTLINED,
    "local": Role.OUTLINED,
    "print": Role.OTHER,
    "super": Role.OTHER,
    "x.append": Role.OTHER,
    "x.item": Role.OTHER,
    "x.add_": Role.OTHER,
    "self.zero_grad": Role.OTHER,
    "self.config.get": Role.OTHER,
    "self.computed": Role.OUTLINED,
    "ex.manual_seed": Role.OTHER,
}


@pytest.mark.parametrize(("text", "role"), ROLES.items(), ids=ROLES)
def test_a_call_has_the_role_of_what_its_name_refers_to(text, role):
    callees = Callees(Model.forward, Model())
    assert callees.role_of(ast.parse(text, mode="eval").body) is role


def test_variables_of_the_function_around_are_looked_up():
    callees = Callees(closure_of(Model()))
    assert callees.role_of(ast.parse("inner", mode="eval").body) is Role.OP
    assert callees.role_of(ast.parse("model.pure", mode="eval").body) is Role.FUNCTION
    assert callees.free == {"inner", "model"}


def test_only_what_computes_is_a_part_of_a_region():
    assert [role for role in Role if role.computes] == [Role.OP, Role.BUILTIN, Role.CELL, Role.FUNCTION]
