"""A loop that was planned at one length needs no planning at another."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.backends.selection import native
from extempo.scheduling.loop_cache import Work
from extempo.scheduling.loop_detection import LEAST

from .loops import CASES, draw, inputs, lstm
from .taping import check

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][3]])
def test_other_lengths_have_the_short_loop_in_common(name, n_planned):
    fn, shapes, shape, _ = CASES[name]
    arguments = [draw(*s, seed=i) for i, s in enumerate(shapes)]
    for n in (20, LEAST + 2, 40, 21):
        check(fn, [*arguments, *inputs(n, *shape)])
    assert len(n_planned) == 1


def test_a_loop_of_other_sizes_is_planned_anew(n_planned):
    for n_features in (3, 5, 3):
        shapes = [
            (4, 4 * n_features),
            (n_features, 4 * n_features),
            (4 * n_features,),
            (2, n_features),
            (2, n_features),
        ]
        check(lstm, [*(draw(*s, seed=i) for i, s in enumerate(shapes)), *inputs(20, 2, 4)])
    assert len(n_planned) == 2


def test_what_follows_a_loop_is_part_of_what_it_is_known_by(n_planned):
    def fn(w, u, h, *xs):
        for x in xs:
            h = (x @ w + h @ u).tanh()
        return (h * h).sum() if len(xs) > 30 else (h + h).sum()

    for n in (20, 40, 25):
        check(fn, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(n, 2, 4)])
    assert len(n_planned) == 2


def test_numbers_and_starts_are_those_of_their_step_at_every_length(n_planned):
    def with_numbers(w, h, *xs):
        h = h * 1.5 + w[1, 0] * 0.125
        for i, x in enumerate(xs):
            h = (x @ w + h * (0.5 + i / 64)).tanh() + i / 8
        return (h * 0.75 + len(xs)).sum() * 0.375

    def with_starts(w, u, h, *xs):
        n = len(xs)
        big = u * 2.0
        h = h @ big[n % 3 : n % 3 + 3]
        for x in xs:
            h = (x @ w + h).tanh()
        return (h @ big[n % 2 : n % 2 + 3]).sum()

    for n in (33, 12, 20):
        check(with_numbers, [draw(4, 3), draw(2, 3), *inputs(n, 2, 4)])
    assert len(n_planned) == 1
    for n in (33, 12, 20):
        check(with_starts, [draw(4, 3), draw(6, 3), draw(2, 3), *inputs(n, 2, 4)], fixed_starts=False)
    assert len(n_planned) == 2


def counting(done):
    for i in range(5):
        done.append(i)
        yield
    return "result"


def test_work_goes_on_where_it_was_left():
    done = []
    work = Work(lambda: counting(done))
    assert not work.proceed(lambda: False)
    assert not work.proceed(lambda: len(done) < 3)
    assert done == [0, 1, 2]
    assert work.proceed(lambda: True)
    assert work.result == "result"
    assert done == [0, 1, 2, 3, 4]
    assert work.finish() == "result"


def test_nobody_waits_for_work_that_another_thread_is_at():
    done, entered, go_on = [], threading.Event(), threading.Event()

    def slow():
        if not entered.is_set():
            entered.set()
            go_on.wait(60)
        yield from counting(done)
        return "result"

    work = Work(slow)
    other = threading.Thread(target=work.finish)
    other.start()
    entered.wait(60)
    assert work.finish() == "result"
    go_on.set()
    other.join()
    assert work.result == "result"


def test_work_that_failed_says_so():
    def failing():
        yield
        raise ValueError("no")

    work = Work(failing)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            work.finish()
