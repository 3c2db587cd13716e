"""Watches wrap methods while they are on, and leave nothing behind."""

from __future__ import annotations

from extempo.core.context import switch
from extempo.core.effect_hooks import EffectHooks, reports_to


class Owner:
    def answer(self):
        return 1


class One:
    pass


class Other:
    pass


def watch(interceptor, number):
    def replacements():
        yield Owner, "answer", reports_to(interceptor, lambda listener, method, *args: number)(vars(Owner)["answer"])

    return EffectHooks(replacements)


def answer_with(interceptor):
    with switch(interceptor=interceptor):
        return Owner().answer()


def test_only_the_interceptor_whose_watch_it_is_gets_told():
    with watch(One, 2):
        assert answer_with(One()) == 2
        assert answer_with(Other()) == Owner().answer() == 1


def test_watches_may_overlap_in_any_order():
    original = vars(Owner)["answer"]
    one, other = watch(One, 2), watch(Other, 3)
    one.__enter__()
    other.__enter__()
    one.__enter__()
    one.__exit__(None, None, None)
    one.__exit__(None, None, None)
    assert answer_with(Other()) == 3  # the first to come was the first to go
    other.__exit__(None, None, None)
    assert vars(Owner)["answer"] is original
    with one:
        assert answer_with(One()) == 2
    assert vars(Owner)["answer"] is original
