"""Debuggers, breakpoints in code and prints are noticed, and code runs as it is written then."""

from __future__ import annotations

import builtins
import functools
import io
import pdb
import sys

import pytest

import extempo as ex
from extempo import nn
from extempo.core.debuggers import has_breakpoint, is_debugged, is_looked_at, looking


def stops():
    breakpoint()


def calls():
    stops()


def plain(x):
    return x + 1


class Inner(nn.Module):
    def forward(self, x):
        import pdb

        pdb.set_trace()
        return x


class Outer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize(
    ("fn", "has"),
    [
        (stops, True),
        (calls, True),
        (lambda: stops(), True),
        (functools.partial(stops), True),
        (Outer(Inner()), True),
        (Outer(Inner()).forward, True),
        (plain, False),
        (Outer(nn.Linear(2, 2)), False),
        (len, False),
    ],
)
def test_a_breakpoint_is_found_where_code_mentions_it(fn, has):
    assert has_breakpoint(fn) is has


def test_a_debugger_counts_and_other_trace_functions_do_not():
    before = sys.gettrace()
    try:
        sys.settrace(lambda *event: None)
        assert not is_debugged()
        debugger = pdb.Pdb(stdin=io.StringIO(), stdout=io.StringIO())
        debugger.reset()
        debugger._set_stopinfo(sys._getframe(), None, -1)
        sys.settrace(debugger.trace_dispatch)
        found = is_debugged()
        sys.settrace(None)
    finally:
        sys.settrace(before)
    assert found
    assert not is_looked_at()
    with looking():
        assert is_looked_at()


def test_a_breakpoint_that_is_not_found_stops_in_one_sample_while_the_others_wait(monkeypatch):
    """The debugger of one sample reads values; no other sample runs before it goes on."""
    order = []

    class Script(pdb.Pdb):
        def __init__(self, name):
            super().__init__(stdin=io.StringIO("p h.sum().item()\nn\nc\n"), stdout=io.StringIO(), nosigint=True)
            self.name = name

        def interaction(self, frame, traceback):
            order.append(f"{self.name} stops")
            super().interaction(frame, traceback)

    monkeypatch.setattr(sys, "breakpointhook", lambda: Script(order[-1]).set_trace(sys._getframe(1)))
    hidden = "break" + "point"

    def body(x, name):
        h = x * 2
        order.append(name)
        getattr(builtins, hidden)()
        y = h + 1
        order.append(f"{name} goes on")
        return y.sum()

    f = ex.batch(body)
    assert not has_breakpoint(body)
    assert [t.item() for t in f([ex.ones(2), ex.ones(2)], ["a", "b"])] == [6.0, 6.0]
    assert order == ["a", "a stops", "a stops", "a goes on", "b", "b stops", "b stops", "b goes on"]


def test_lines_that_samples_print_are_whole(capsys):
    def body(x):
        print("x is", x * 2)
        return x

    ex.batch(body)([ex.ones(1), ex.ones(1)])
    assert capsys.readouterr().out == "x is tensor([2.])\n" * 2
