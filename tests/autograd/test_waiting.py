"""Who waits for the end of a backward."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.autograd.waiting import WAITING
from extempo.errors import UnsupportedError


@pytest.fixture(autouse=True)
def _nobody():
    yield
    WAITING.clear()


@pytest.mark.parametrize("run", [lambda f: f, ex.compile])
def test_they_are_called_in_order_when_gradients_are_in_place_until_they_are_done(run):
    x, heard = ex.ones(2, requires_grad=True), []
    answers = {2: [True], 1: [False, True]}

    def waiter(number):
        return lambda: heard.append((number, x.grad.tolist())) or answers[number].pop(0)

    WAITING.update({number: waiter(number) for number in answers})
    step = run(lambda: (x * 3).sum().backward())
    step()
    step()
    step()
    assert heard == [(1, [3.0, 3.0]), (2, [3.0, 3.0]), (1, [6.0, 6.0])]
    assert not WAITING


def test_a_static_function_would_leave_them_out_and_is_refused():
    x = ex.ones(2, requires_grad=True)

    @ex.compile(static=True)
    def step(y):
        (x * y).sum().backward()

    WAITING[0] = lambda: True
    with pytest.raises(UnsupportedError, match="static"):
        step(ex.ones(2))
