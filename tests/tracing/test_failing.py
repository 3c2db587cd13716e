"""Errors in the middle: what came before stands, what was to come has not happened, and the next call works."""

from __future__ import annotations

import traceback

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.errors import IndexRangeError, ShapeError
from extempo.nn import functional as F

from .agreement import CALLS, agree, draw, error_of, grads, needs_native_code, whole


def test_an_exception_of_the_user():
    def scenario(wrap):
        kept = []
        total = ex.zeros(3)

        def f(x, fail):
            y = x * 2
            kept.append(y)
            total.add_(y)
            z = y.exp()
            kept.append(z)
            if fail:
                raise KeyError("stop")
            return z + total

        run = wrap(f)
        for i in range(9):
            try:
                yield run(draw(i, 3), i % 3 == 1)
            except KeyError as error:
                yield error
            yield total
        yield kept

    agree(scenario)


def test_an_exception_after_backward():
    def scenario(wrap):
        w = draw(0, 3, grad=True)

        def f(x, fail):
            loss = (x * w).tanh().sum()
            loss.backward()
            y = w * 3
            if fail:
                raise ValueError("late")
            return y, loss

        run = wrap(f)
        for i in range(9):
            yield error_of(run, draw(i, 3), i % 3 == 2), w.grad

    agree(scenario)


def test_an_exception_caught_inside():
    def scenario(wrap):
        def f(x, w):
            y = x * 2
            try:
                z = y @ w
            except ShapeError as error:
                z = y + len(str(error))
            return z, y

        run = wrap(f)
        for i in range(8):
            yield run(draw(i, 2, 3), draw(i, 3 + i % 2, 2))

    agree(scenario)


@pytest.mark.parametrize("read", [True, False])
def test_an_index_out_of_range(read):
    def scenario(wrap):
        table = draw(0, 5, 3)
        counts = ex.zeros(3)

        def f(words):
            counts.add_(1.0)
            rows = table[words]
            y = rows * 2
            return y.sum().item() if read else y.sum()

        run = wrap(f)
        for i in range(12):
            words = whole(i, 4, high=5)
            if i % 4 == 3:
                words[2] = 5 + i
            error = result = None
            try:
                result = run(words)
            except Exception as e:
                error = type(e).__name__
            yield error, result, counts, table

    agree(scenario)


def test_an_index_out_of_range_in_a_training_step_changes_nothing():
    def scenario(wrap):
        ex.manual_seed(0)
        embed, out = nn.Embedding(5, 4), nn.Linear(4, 3)
        parameters = [*embed.parameters(), *out.parameters()]
        optimizer = optim.Adam(parameters, lr=0.1)

        def step(words, labels):
            optimizer.zero_grad()
            loss = F.cross_entropy(out(embed(words).relu()), labels)
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step)
        for i in range(15):
            words, labels = whole(i, 4, high=5), whole(i + 1, 4, high=3)
            if i % 5 == 3:
                words[1] = 99
            if i % 5 == 4:
                labels[1] = 7
            error = loss = None
            try:
                loss = run(words, labels)
            except Exception as e:
                error = type(e).__name__
            yield error, loss, parameters, grads(*parameters)

    agree(scenario)


def test_the_error_names_the_line_that_recorded_the_op():
    def f(table, words):
        rows = table[words]  # the line
        return (rows * 2).sum()

    line = f.__code__.co_firstlineno + 1
    run = ex.compile(f)
    table = draw(0, 5, 3)
    bad = ex.tensor([0, 7])
    for i in range(CALLS):
        assert run(table, whole(i, 2)).shape == ()
    for _ in range(2):
        with pytest.raises(IndexRangeError) as caught:
            run(table, bad).item()
        text = "".join(traceback.format_exception(caught.value))
        assert f"{__file__}:{line}" in text or f'{__file__}", line {line}' in text
        assert run(table, whole(0, 2)).item() == f(table, whole(0, 2)).item()


def test_values_before_and_after_the_op_that_failed():
    def scenario(wrap):
        kept = []

        def f(x, index):
            a = x * 2
            kept.append(a)
            b = a[index]
            c = b + 1
            kept.append(c)
            return c.sum().item()

        run = wrap(f)
        for i in range(8):
            kept.clear()
            index = ex.tensor([0, 1, 9 if i % 3 == 2 else 2])
            error = None
            try:
                yield run(draw(i, 4), index)
            except Exception as e:
                error = type(e).__name__
            yield error, kept[0]

    agree(scenario)


@needs_native_code
def test_a_tensor_whose_op_failed_stays_an_error():
    run = ex.compile(lambda x, index: x[index] * 2)
    for i in range(CALLS):
        run(draw(i, 4), ex.tensor([0]))
    with pytest.raises(IndexError):
        run(draw(0, 4), ex.tensor([4])).tolist()
    kept = []

    def f(x, index):
        kept.append(x[index])
        return (kept[-1] * 2).sum().item()

    keeping = ex.compile(f)
    for i in range(CALLS):
        keeping(draw(i, 4), ex.tensor([0]))
    with pytest.raises(IndexError):
        keeping(draw(0, 4), ex.tensor([4]))
    for _ in range(2):
        with pytest.raises(IndexError):
            kept[-1].tolist()
    with pytest.raises(IndexError):
        (kept[-1] + 1).tolist()


def test_an_index_error_in_tracked_values_found_in_backward():
    def scenario(wrap):
        table = draw(0, 5, 3, grad=True)
        run = wrap(lambda words: (table[words] * 2).sum().backward())
        waiting = wrap(lambda words: (table[words] * 2).sum())
        for i in range(10):
            words = whole(i, 4, high=5)
            if i % 4 == 3:
                words[0] = -6
            error = error_of(run, words)
            yield type(error).__name__, table.grad
            error = None
            try:
                waiting(words).backward()
            except Exception as e:
                error = type(e).__name__
            yield error, table.grad

    agree(scenario)


def test_a_singular_matrix():
    def scenario(wrap):
        def f(a, b):
            y = b * 2
            return ex.linalg.solve(a + 0, y).sum().item()

        run = wrap(f)
        for i in range(8):
            a = ex.ones(2, 2) if i % 3 == 2 else ex.eye(2) * (i + 1)
            yield error_of(run, a, draw(i, 2, 1)), error_of(run, a, draw(i, 2, 1)) is None

    agree(scenario)


def test_shapes_that_do_not_fit_are_refused_at_their_line():
    def f(x, w):
        y = x + 1
        return y @ w

    run = ex.compile(f)
    line = f.__code__.co_firstlineno + 2
    for i in range(CALLS):
        run(draw(i, 2, 3), draw(i, 3, 2))
        with pytest.raises(ShapeError) as caught:
            run(draw(i, 2, 3), draw(i, 2, 2))
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert any(frame.filename == __file__ and frame.lineno == line for frame in frames)


def test_an_interrupt_in_the_middle():
    def scenario(wrap):
        total = ex.zeros(3)

        def f(x, stop):
            total.add_(x)
            y = x * 2
            if stop:
                raise KeyboardInterrupt
            return y + total

        run = wrap(f)
        for i in range(6):
            try:
                yield run(draw(i, 3), i % 2)
            except KeyboardInterrupt:
                yield "interrupted"
            yield total

    agree(scenario)


def test_modes_are_restored_after_an_exception():
    def f(x):
        with ex.no_grad():
            x * 2
            raise ValueError

    run = ex.compile(f)
    for i in range(CALLS):
        with pytest.raises(ValueError):  # noqa: PT011 - raised above, without a text
            run(draw(i, 2))
        assert ex.is_grad_enabled()
        x = draw(i, 2, grad=True)
        assert (x * 2).grad_fn is not None


def test_an_optimizer_that_fails_half_way():
    def scenario(wrap):
        w = draw(0, 3, grad=True)
        optimizer = optim.SGD([w], lr=0.1)

        def step(x, fail):
            loss = (x * w).square().sum()
            loss.backward()
            if fail:
                w.grad = w.grad * 2
                raise RuntimeError("no step")
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = wrap(step)
        for i in range(9):
            yield error_of(run, draw(i, 3), i % 4 == 2), w, w.grad

    agree(scenario)
