"""Loops on a tape: found where windows differ in nothing but where they are, and shortened."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.backends.selection import native
from extempo.scheduling.loop_detection import HEAD, LEAST, TAIL, find_loop, shortened
from extempo.scheduling.request import Request, plan

from .loops import LSTM, draw, inputs, lstm
from .taping import check, record

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def test_two_loops(rolled):
    def fn(w, u, h, *xs):
        for x in xs[:30]:
            h = (x @ w + h @ u).tanh()
        for x in xs[30:]:
            h = (x @ w * 0.5 + h).sigmoid()
        return h.sum()

    check(fn, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(50, 2, 4)])
    assert rolled == [True]


def test_one_odd_step_ends_a_loop(rolled):
    def fn(w, u, h, *xs):
        for i, x in enumerate(xs):
            h = (x @ w + h @ u).tanh()
            if i == 33:
                h = h * 2
        return h.sum()

    check(fn, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(36, 2, 4)])
    check(fn, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(40, 2, 4)])
    assert rolled == [True, True]


def test_planning_a_loop_takes_no_longer_the_longer_it_is():
    def n_nodes(n):
        tape, (result,) = record(lstm, [*(draw(*s, seed=i) for i, s in enumerate(LSTM)), *inputs(n, 2, 4)])
        request = Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(result),))
        loop = find_loop(request)
        assert loop.n_windows in (n - 1, n)
        assert loop.n_windows - loop.n_left_out == HEAD + TAIL
        return plan(request).n_instructions

    assert n_nodes(60) - n_nodes(40) == n_nodes(80) - n_nodes(60)


def request_of(fn, arguments, wanted=None):
    tape, results = record(fn, arguments)
    return Request(tape.steps, 0, tape.leaves, frozenset(), wanted or tuple(map(tape.place, results)))


def rnn(w, h, *xs):
    for x in xs:
        h = (x @ w + h).tanh()
    return h.sum()


def arguments(n):
    return [draw(4, 3), draw(2, 3), *inputs(n, 2, 4)]


def test_few_windows_or_other_steps_in_between_are_no_loop():
    assert find_loop(request_of(rnn, arguments(LEAST - 1))) is None
    assert find_loop(request_of(rnn, arguments(LEAST + 4))) is not None

    def changing(w, h, *xs):
        for i, x in enumerate(xs):
            h = (x @ w + h).tanh() if i % 3 else (h * x.sum()).exp()
            h = h.relu() if i % 7 == 5 else h
        return h.sum()

    assert find_loop(request_of(changing, arguments(20))) is None


def test_a_window_counts_its_steps_places_leaves_and_numbers():
    def scaled(w, h, *xs):
        for i, x in enumerate(xs):
            h = (x @ w + h * (i + 0.5)).tanh()
        return h.sum()

    loop = find_loop(request_of(scaled, arguments(20)))
    assert (loop.period, loop.n_places, loop.n_leaves, loop.n_numbers) == (4, 4, 1, 1)
    assert loop.n_left_out == loop.n_windows - HEAD - TAIL


def test_the_shortened_tape_has_head_and_tail_and_knows_where_things_really_are():
    request = request_of(rnn, arguments(30))
    loop = find_loop(request)
    short = shortened(request, loop)
    assert len(short.steps) == len(request.steps) - loop.n_left_out * loop.period
    assert len(short.leaves) == len(request.leaves) - loop.n_left_out * loop.n_leaves
    assert [loop.place(place) for place in short.wanted] == list(request.wanted)
    assert loop.step(len(short.steps) - 1) == len(request.steps) - 1
    last, really_last = short.steps[-1], request.steps[-1]
    assert (last.op, loop.place(last.refs[0])) == (really_last.op, really_last.refs[0])


def test_a_loop_of_which_something_is_needed_that_would_be_left_out_stays_long():
    request = request_of(rnn, arguments(30))
    loop = find_loop(request)
    middle = loop.first_place + (loop.n_windows // 2) * loop.n_places
    assert shortened(request._replace(wanted=(middle,)), loop) is None
    assert shortened(request._replace(wanted=(loop.first_place,)), loop) is not None
