"""Samples side by side: who waits, who goes on, and what an exception does to the others."""

from __future__ import annotations

import threading

import pytest

import extempo as ex

from .agreement import draw, rows


def test_an_exception_has_its_own_type_and_names_the_sample():
    ended = []

    def run(x, i):
        try:
            x.sum().item()
            if i == 2:
                raise KeyError("mine")
            x.sum().item()
            return (x * 2).sum().item()
        finally:
            ended.append(i)

    with pytest.raises(KeyError) as caught:
        ex.batch(run)(rows(5, 3), range(5))
    assert any("sample 2" in note for note in caught.value.__notes__)
    assert sorted(ended) == [0, 1, 2, 3, 4]


def test_an_exception_before_anything_was_read():
    with pytest.raises(ZeroDivisionError) as caught:
        ex.batch(lambda i: 1 / i)([1, 2, 0, 3])
    assert any("sample 2" in note for note in caught.value.__notes__)


def test_an_interrupt_ends_all_samples():
    ended = []

    def run(x, i):
        try:
            x.sum().item()
            if i == 1:
                raise KeyboardInterrupt
            x.sum().item()
        finally:
            ended.append(i)

    with pytest.raises(KeyboardInterrupt):
        ex.batch(run)(rows(3, 2), range(3))
    assert sorted(ended) == [0, 1, 2]
    assert ex.batch(lambda x: x.sum())(rows(2, 2))[0].item() == pytest.approx(draw(0, 2).sum().item())


def test_a_sample_that_reads_while_it_is_ended():
    def run(x, i):
        try:
            x.sum().item()
            if i == 0:
                raise ValueError("stop")
            (x * 2).sum().item()
        finally:
            if i:
                with pytest.raises(ex.errors.GraphError, match="being ended"):
                    (x * 3).sum().item()

    with pytest.raises(ValueError, match="stop"):
        ex.batch(run)(rows(3, 2), range(3))


def test_a_value_asked_for_in_another_thread():
    caught = []

    def run(x):
        y = x * 2

        def other():
            try:
                y.sum().item()
            except ex.errors.GraphError as error:
                caught.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return y

    ex.batch(run)(rows(2, 2))
    assert len(caught) == 2
    assert "another thread" in caught[0]


def test_what_a_line_before_would_have_raised_comes_first():
    """Calls run later than their lines; an error of one is that of the plain loop all the same."""
    samples = [ex.ones(n, 2) for n in (3, 1, 4)]

    def run(x):
        y = (x * 1.0)[ex.tensor([0, 1])]
        raise KeyError(len(y))

    with pytest.raises(KeyError, match="2"):
        ex.batch(run)(samples)
    with pytest.raises(ex.errors.IndexRangeError) as alone:
        ex.batch(run, debug=True)(samples[1:])
    with pytest.raises(ex.errors.IndexRangeError) as caught:
        ex.batch(run)(samples[1:])
    assert str(caught.value) == str(alone.value)
    assert any("sample 0" in note and "test_greenlets.py" in note for note in caught.value.__notes__)
