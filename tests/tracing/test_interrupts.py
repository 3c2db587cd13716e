"""Ctrl-C at any line of a compiled call leaves nobody recording, and the next call works as ever."""

from __future__ import annotations

import sys

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.core.active_traces import ACTIVE
from extempo.core.context import CONTEXT
from extempo.nn import functional as F
from extempo.tracing import compiled_function
from extempo.tracing.static import static_function

pytestmark = pytest.mark.alone

FUNCTION, SCRIPT = compiled_function.CompiledFunction, static_function.Script
CODES = (
    *(FUNCTION.run.__code__, FUNCTION._traced.__code__, compiled_function._end.__code__),
    *(FUNCTION._executor.__code__, FUNCTION._account_for.__code__),
    *(SCRIPT.run.__code__, SCRIPT._by_plans.__code__, SCRIPT._op_by_op.__code__),
    static_function._end.__code__,
)


def interrupted_at(n_lines, call, *args):
    """Call it and raise KeyboardInterrupt before line `n_lines` of the compiled call. False if it has fewer."""
    left = n_lines

    def on_line(frame, event, arg):
        nonlocal left
        if event == "line":
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return on_line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, arg: on_line if frame.f_code in CODES else None)
    try:
        call(*args)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("static", [False, True])
def test_an_interrupt_at_any_line_leaves_nobody_recording(static):
    if ex.backends.stats()["backend"] == "numpy":
        pytest.skip("records with native kernels only")
    ex.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    x, y = ex.randn(6, 4), ex.randint(0, 2, (6,))

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    right = step(x, y).item()
    n_lines, made = 0, ex.compile(step, static=static)
    while True:
        if static:
            made(x, y)  # records it
        if not interrupted_at(n_lines, made, x, y):
            break
        assert CONTEXT.get().recording is None
        assert CONTEXT.get().interceptor is None
        assert ACTIVE.recordings == []
        optimizer.zero_grad()
        made = ex.compile(step, static=static)
        assert made(x, y).item() == right
        made = ex.compile(step, static=static)
        n_lines += 1
    assert n_lines > 20  # the lines that record are among them


def test_no_python_runs_where_a_tape_goes_away():
    """An interrupt that came in there would be printed and lost, and the tape remembered for ever."""
    w = ex.ones(3, requires_grad=True)
    run = ex.compile(lambda x: (x * w).exp())
    called = []
    for _ in range(3):
        y = run(ex.ones(3))
        before = sys.gettrace()
        sys.settrace(lambda frame, event, arg: called.append(frame.f_code.co_name))
        try:
            del y
        finally:
            sys.settrace(before)
    assert called == []
