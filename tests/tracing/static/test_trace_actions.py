"""Steps that come onto the tape together: their leaves are checked, and named where they changed."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.core.trace_tree import LeafKind
from extempo.errors import DtypeError, GraphError, ShapeError
from extempo.tracing.static.script import Labels
from extempo.tracing.static.trace_actions import LeafSlot

from ..agreement import draw, needs_native_code
from .static_agreement import WAYS, going, static

pytestmark = needs_native_code


@pytest.fixture(params=WAYS)
def way(request):
    with going(request.param):
        yield


@pytest.mark.usefixtures("way")
def test_a_parameter_that_changed_its_kind_is_refused():
    model = nn.Linear(3, 2)
    run = static(lambda x: model(x))
    run(ex.ones(1, 3))
    model.weight.requires_grad_(False)
    with pytest.raises(
        GraphError, match=r"\(static\): parameter weight of Linear that is used at .* does not require grad"
    ):
        run(ex.ones(1, 3))
    model.weight.requires_grad_()
    run(ex.ones(1, 3))
    model.weight.data = ex.ones(4, 3)
    with pytest.raises(ShapeError, match=r"\(static\): parameter weight of Linear .*when the function was recorded"):
        run(ex.ones(1, 3))
    model.weight.data = ex.ones(2, 3, dtype=ex.float64)
    with pytest.raises(DtypeError, match=r"\(static\): parameter weight of Linear .*when the function was recorded"):
        run(ex.ones(1, 3))
    model.weight.data = ex.ones(3, 2).T
    with pytest.raises(GraphError, match=r"parameter weight of Linear .* strides \(1, 2\), .*contiguous"):
        run(ex.ones(1, 3))


@pytest.mark.usefixtures("way")
def test_a_parameter_is_named_as_the_outermost_module_names_it():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    w = draw(0, 3)
    run = static(lambda x: model(x) * w)
    run(ex.ones(2, 3))
    model[0].bias.data = ex.ones(1)
    with pytest.raises(ShapeError, match=r"\(static\): parameter 0\.bias of Sequential"):
        run(ex.ones(2, 3))
    model[0].bias.data = ex.ones(3)
    w.data = ex.ones(1)
    with pytest.raises(ShapeError, match=r"\(static\): a tensor that is used at"):
        run(ex.ones(2, 3))


def test_a_leaf_that_stays_is_checked_once_for_each_array():
    x = ex.ones(3)
    leaf = LeafSlot(0, LeafKind(x._type, None, False), None, checked=False, stays=True, labels=Labels("f"))
    leaf.check(x)
    assert leaf.array() is x._data
    assert leaf.node is x._history
    with pytest.raises(ShapeError, match=r"f \(static\): a tensor .* is f32\[4\] .* it was f32\[3\]"):
        leaf.check(ex.ones(4))
    with pytest.raises(DtypeError, match="is f64"):
        leaf.check(ex.ones(3, dtype=ex.float64))
    with pytest.raises(GraphError, match=r"requires grad, .* did not require grad"):
        leaf.check(ex.ones(3, requires_grad=True))
    with pytest.raises(GraphError, match=r"lies in memory with strides \(2,\)"):
        leaf.check(ex.ones(6)[::2])


def test_what_fitted_last_is_not_kept_alive_by_its_check():
    x = ex.ones(3)
    leaf = LeafSlot(0, LeafKind(x._type, None, False), None, checked=False, stays=True, labels=Labels("f"))
    leaf.check(x)
    del x
    assert leaf.array() is None
