"""Gradients as plans need them: expressions where eager mode has one kernel, else nodes to be applied in order."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

import numpy as np

import extempo as ex
from extempo.backends.selection import native
from extempo.scheduling.request import Unplannable
from extempo.scheduling.vjp_templates import TemplateConstant, VjpTemplate, gradient_of

from .taping import check, draw, record

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

F = ex.nn.functional


def step_of(fn, *arguments):
    """The last op that `fn` runs."""
    return record(fn, [*arguments])[0].steps[-1]


def test_a_simple_op_of_one_dtype_has_an_expression_for_each_input():
    step = step_of(lambda x, b: x * b, draw(5, 4), draw(4))
    whole, row = gradient_of(step)
    assert (whole.input, whole.reads, whole.fit) == (0, (2,), None)
    assert (row.input, row.reads, row.fit) == (1, (1,), step.kinds[1])  # to be summed
    passed = gradient_of(step_of(lambda x, b: x + b, draw(5, 4), draw(5, 4)))
    assert [derived.passed for derived in passed] == [True, True]


def test_steps_of_one_signature_share_their_gradient():
    tape, _ = record(lambda x: x.tanh() + (x * 2).tanh(), [draw(5, 4)])
    first, _, second, _ = tape.steps
    assert gradient_of(first) is gradient_of(second)


def test_a_template_applies_the_ops_of_the_vjp_in_order():
    template = gradient_of(step_of(lambda x, w: x @ w, draw(5, 4), draw(4, 3)))
    assert type(template) is VjpTemplate
    assert (template.cotangents, template.zeros, template.reads, template.numbers) == ((0,), (), (1, 2), ())
    assert [node.op for node in template.nodes if node.lowered is not None] == ["matmul", "matmul"]
    assert [i for i, _ in template.outputs] == [0, 1]
    (view, *_) = [node for node in template.nodes if node.lowered is None]
    assert view.op == "permute"


def test_mixed_dtypes_are_rounded_after_every_op():
    x, y = draw(5, 4), ex.tensor(np.ones((5, 4)), requires_grad=True)
    template = gradient_of(step_of(lambda x, y: x * y, x, y))
    assert type(template) is VjpTemplate
    assert "cast" in [node.op for node in template.nodes]
    check(lambda x, y: (x * y).sum(), [x, y])


def test_of_several_results_each_set_that_received_gradients_has_a_template():
    step = step_of(lambda x: F.layer_norm(x, (4,)), draw(5, 4))
    one = gradient_of(step, (True, False, False))
    assert one.cotangents == (0,)
    assert one.zeros == ()  # this op is told what did not come
    maximum = step_of(lambda x: x.max(1).values, draw(5, 4))
    assert gradient_of(maximum, (True, False)).reads == (-2,)  # which element it was


def test_numbers_that_are_known_are_folded_into_constants():
    template = gradient_of(step_of(lambda x: x.mean(), draw(5, 4)))
    constants = [i for node in template.nodes for i in node.inputs if type(i) is TemplateConstant]
    assert constants
    check(lambda x: (x * x).mean(), [draw(5, 4)])


def test_what_has_no_gradient_is_named_each_time():
    step = step_of(lambda x: x.argsort(), draw(5))
    for _ in range(2):
        with pytest.raises(Unplannable, match="argsort has no gradient"):
            gradient_of(step)
