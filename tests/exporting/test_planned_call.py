"""PlannedCall: programs that are one plan run by it as soon as there is one, and only where the call fits."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.scheduling.request import can_plan

pytestmark = pytest.mark.skipif(not can_plan(), reason="there are no plans without native code")


@pytest.fixture
def program():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).eval()
    return ex.program(model, ex.randn(2, 3), dynamic={"input": {0: "n"}})


def test_a_program_is_one_call_once_it_is_planned(program):
    x = ex.randn(5, 3)
    assert not program._planned
    expected = program(x)
    for _ in range(3):
        assert ex.equal(program(x), expected)
    assert list(program._planned) == [(x._type,)]
    assert ex.equal(program._planned[(x._type,)].run([x], program.weights, ex.core.context.CONTEXT.get())[0], expected)


def test_each_shape_has_its_own(program):
    for n in (1, 4, 1, 4, 1, 4):
        x = ex.randn(n, 3)
        with ex.eager():
            expected = program(x)
        assert ex.equal(program(x), expected)
    assert len(program._planned) == 2


def test_names_nested_arguments_and_several_results_are_given_as_ever():
    cell = nn.LSTMCell(3, 4).eval()
    program = ex.program(
        lambda x, state: {"state": cell(x, state), "n": x.shape[0]},
        (ex.randn(2, 3), (ex.randn(2, 4),) * 2),
        dynamic={"x": {0: "n"}, "state": ({0: "n"}, {0: "n"})},
    )
    x, h, c = ex.randn(5, 3), ex.randn(5, 4), ex.randn(5, 4)
    for _ in range(4):
        made = program(state=(h, c), x=x)
        assert made["n"] == 5
        assert all(map(ex.allclose, made["state"], cell(x, (h, c))))
    assert program._planned


def test_states_come_in_and_go_out():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", ex.zeros(3))

        def forward(self, x):
            self.total += x
            return self.total * 2

    program = ex.program(Counter().eval(), ex.ones(3))
    for _ in range(4):
        y, state = program(ex.ones(3))
        assert y.tolist() == [2.0] * 3
        assert state["total"].tolist() == [1.0] * 3
        y, state = program(ex.ones(3), total=state["total"])
        assert y.tolist() == [4.0] * 3


def test_a_call_that_does_not_fit_goes_another_way(program):
    x = ex.randn(3, 3)
    for _ in range(3):
        expected = program(x)
    assert ex.equal(program(x.T.contiguous().T), expected)
    assert ex.equal(ex.vmap(program)(x.unsqueeze(0))[0], expected)
    assert ex.equal(ex.compile(program)(x), expected)
    with pytest.raises(ex.errors.DtypeError, match="must be a tensor"):
        program(1.0)
    with pytest.raises(ex.errors.DtypeError, match="expected input"):
        program(x.double())


def test_results_have_no_history(program):
    for _ in range(3):
        assert not program(ex.randn(2, 3, requires_grad=True)).requires_grad
