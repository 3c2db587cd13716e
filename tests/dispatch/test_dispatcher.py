"""apply(): who runs an op, what its node keeps, and what becomes of inputs that are no tensors."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pytest

import extempo as ex
from extempo.core.context import CONTEXT, switch
from extempo.core.graph import Node, Pick
from extempo.core.op import REGISTRY
from extempo.dispatch.dispatcher import (
    alias_of,
    apply,
    as_input,
    cut_reason,
    dispatch,
    entry,
    quietly,
    run_eager,
    same_memory,
    signature_of,
)
from extempo.errors import DtypeError, ShapeError, UnsupportedError


class Listener:
    """An interceptor that notes what it is shown and answers with its name."""

    def __init__(self):
        self.ops = []

    def apply(self, op, inputs, attrs):
        self.ops.append((op.name, len(inputs), attrs))
        return "intercepted"


@pytest.mark.parametrize("run", [apply, dispatch])
def test_an_interceptor_is_shown_every_op(run):
    listener = Listener()
    with switch(interceptor=listener):
        assert run(REGISTRY["add"], (ex.ones(2), 1)) == "intercepted"
        assert run(REGISTRY["sum"], (ex.ones(2),), {"dim": (0,), "keepdim": False}) == "intercepted"
    assert listener.ops == [("add", 2, {}), ("sum", 1, {"dim": (0,), "keepdim": False})]


def test_the_shape_rule_speaks_before_anything_runs():
    with pytest.raises(ShapeError, match="add"):
        dispatch(REGISTRY["add"], (ex.ones(2), ex.ones(3)))


def test_a_tracked_result_keeps_what_its_gradient_reads_and_no_more():
    x, w = ex.ones(2, requires_grad=True), ex.full((2,), 3.0)
    made = run_eager(REGISTRY["mul"], (x, w), {}, CONTEXT.get())
    node = made._history
    assert type(node) is Node
    assert [position for position, *_ in node.saved] == [2]  # the gradient of x reads w alone
    assert node.saved[0][1] is w._data
    assert node.inputs[0] is x._node


def test_an_untracked_result_says_why_gradients_end_at_it():
    x = ex.ones(2, requires_grad=True)
    with ex.no_grad():
        assert run_eager(REGISTRY["exp"], (x,), {}, CONTEXT.get())._grad_barrier[0] == "no_grad()"
    with ex.inference_mode():
        barred = run_eager(REGISTRY["exp"], (x,), {}, CONTEXT.get())
    assert barred._grad_barrier[0] == cut_reason(REGISTRY["exp"], CONTEXT.get().but(grad=False, inference=True))
    further = run_eager(REGISTRY["neg"], (barred,), {}, CONTEXT.get())
    assert further._grad_barrier is barred._grad_barrier
    assert "not floating" in run_eager(REGISTRY["eq"], (x, 1.0), {}, CONTEXT.get())._grad_barrier[0]


def test_several_results_share_one_node_and_pick_from_it():
    x = ex.tensor([[1.0, 5.0, 2.0]], requires_grad=True)
    values, indices = run_eager(REGISTRY["max_with_index"], (x,), {"dim": (1,), "keepdim": False}, CONTEXT.get())
    assert (values.tolist(), indices.tolist()) == ([5.0], [1])
    assert values._node.op is Pick
    assert indices._history is None


def test_a_view_knows_its_base_through_other_views():
    base = ex.arange(6.0)
    first = run_eager(REGISTRY["reshape"], (base,), {"shape": (2, 3)}, CONTEXT.get())
    second = run_eager(REGISTRY["permute"], (first,), {"dims": (1, 0)}, CONTEXT.get())
    assert second._alias.base is base
    assert [op.name for op, _, _ in second._alias.steps] == ["reshape", "permute"]
    assert second._storage is base._storage
    assert alias_of(base, REGISTRY["detach"], (), {}).steps == ((REGISTRY["detach"], (), {}),)
    copied = run_eager(REGISTRY["reshape"], (second,), {"shape": (6,)}, CONTEXT.get())
    assert copied._alias is None
    assert not same_memory(copied._data, base._data)


class Color(IntEnum):
    RED = 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.5, 1.5), (True, True), (None, None), (np.float32(2.5), 2.5), (np.int64(4), 4), (Color.RED, 3)],
)
def test_numbers_of_any_kind_are_pythons_own(value, expected):
    found = as_input(value)
    assert found == expected
    assert type(found) is type(expected)


def test_arrays_are_taken_on_their_own_memory_and_other_things_are_refused():
    array = np.arange(3.0)
    assert as_input(array)._data.ctypes.data == array.ctypes.data
    with pytest.raises(UnsupportedError, match="complex"):
        as_input(1j)
    with pytest.raises(DtypeError, match="got list"):
        as_input([1.0])
    with pytest.raises(DtypeError, match="add: expected a tensor or a number, got str"):
        dispatch(REGISTRY["add"], (ex.ones(2), "2"))


def test_a_saved_value_is_known_by_its_storage_and_version():
    x = ex.ones(2)
    x.add_(1)
    assert entry(1, x) == (1, x._data, x._storage, 1)


def test_signatures_are_remembered_unless_an_attribute_cannot_be():
    x = ex.ones(2, 3)
    attrs = {"dim": (0,), "keepdim": False}
    first = signature_of(REGISTRY["sum"], (x,), (x._type,), attrs)
    assert signature_of(REGISTRY["sum"], (x,), (x._type,), dict(attrs)) is first
    unhashable = {"dim": [0], "keepdim": False}
    assert signature_of(REGISTRY["sum"], (x,), (x._type,), unhashable).type == first.type


def test_numpy_is_quiet_inside_and_warns_again_outside():
    def divide():
        return CONTEXT.get().quiet, np.float64(1.0) / np.float64(0.0), quietly(lambda: CONTEXT.get().quiet)

    assert quietly(divide) == (True, np.inf, True)
    assert not CONTEXT.get().quiet
    with pytest.raises(RuntimeWarning):
        np.float64(1.0) / np.float64(0.0)
