"""What an op adds to the time that LLVM takes: more for what it writes more of."""

import pytest

pytest.importorskip("llvmlite")

import extempo.nn.functional as F  # noqa: F401 - loads the ops that it is made of
from extempo.backends.llvm.plans.costs import cost_of
from extempo.core.op import REGISTRY

LEAST = cost_of(REGISTRY["add"])


def op(lower, name="made_up"):
    return type("Op", (), {"lower": lower, "name": name})


def test_functions_cost_more_than_sums_and_powers_more_than_functions():
    assert cost_of(REGISTRY["mul"]) == LEAST > 0
    assert LEAST < cost_of(REGISTRY["gelu"]) < cost_of(REGISTRY["pow_tensor"])


def test_an_op_that_calls_two_functions_costs_as_much_as_both():
    one, other = cost_of(op(lambda e, x: e.exp(x))), cost_of(op(lambda e, x: e.sin(x)))
    assert cost_of(op(lambda e, x: e.exp(e.sin(x)))) == one + other - LEAST
    assert min(one, other) > LEAST


def test_an_op_without_code_of_its_own_is_known_by_its_name():
    assert cost_of(op(None, "erf")) == cost_of(op(lambda e, x: e.erf(x)))
    assert cost_of(op(None, "unheard_of")) == LEAST
