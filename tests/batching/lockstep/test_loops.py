"""Loops over the rows of samples of different lengths."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex

from .loops_beside import alike, check, ragged, weight


@pytest.mark.parametrize("lengths", [(4, 1, 3, 7, 3), (5, 5, 5), (3, 0, 2), (0, 0, 1), (2, 9), (1, 1), (0, 0)])
def test_a_carried_state_goes_through_the_rows_of_samples_of_any_length(lengths):
    w, u, b = weight(3, 4), weight(4, 4), weight(4)

    def fn(x):
        h = ex.zeros(4)
        for row in x:
            h = ex.tanh(row @ w + h @ u + b)
        return h

    ran = sum(n > 0 for n in lengths)
    check(fn, ragged(3, lengths=lengths), parameters=[w, u, b], ran=ran)


def _by_index(x, w):
    h = ex.zeros(4)
    for t in range(len(x)):
        h = ex.tanh(x[t] @ w + h)
    return h


def _by_shape(x, w):
    h = ex.zeros(4)
    for t in range(x.shape[0]):
        h = ex.tanh(x[t] @ w + h)
    return h


def _reversed(x, w):
    h = ex.zeros(4)
    for t in reversed(range(len(x))):
        h = ex.tanh(x[t] @ w + h)
    return h


def _flipped(x, w):
    h = ex.zeros(4)
    for row in x.flip(0):
        h = ex.tanh(row @ w + h)
    return h


def _enumerated(x, w):
    h = ex.zeros(4)
    for i, row in enumerate(x):
        h = ex.tanh(row @ w + h * (i + 1))
    return h


def _zipped(x, w):
    h = ex.zeros(4)
    for row, other in zip(x, x @ w, strict=True):
        h = ex.tanh(row @ w + h + other)
    return h


def _one_after_the_other(x, w):
    h = ex.zeros(4)
    for row in x:
        h = ex.tanh(row @ w + h)
    g = ex.zeros(4)
    for row in x:
        g = ex.sin(row @ w + g) + h
    return g, h


def _appended(x, w):
    h, states = ex.zeros(4), []
    for row in x:
        h = ex.tanh(row @ w + h)
        states.append(h)
    return ex.stack(states).sum(0), h


def _appended_rows(x, w):
    h, states = ex.zeros(4), []
    for row in x:
        h = ex.tanh(row @ w + h)
        states.append(h)
    return ex.stack(states)


def _both_ways(x, w):
    h, forth = ex.zeros(4), []
    for row in x:
        h = ex.tanh(row @ w + h)
        forth.append(h)
    h, back = ex.zeros(4), []
    for t in range(len(x) - 1, -1, -1):
        h = ex.tanh(x[t] @ w + h)
        back.append(h)
    return ex.cat([ex.stack(forth), ex.stack(back)], 1)


def _two_states(x, w):
    h, c = ex.zeros(4), ex.ones(4)
    for row in x:
        z = row @ w + h
        c = c * ex.sigmoid(z) + z
        h = ex.tanh(c)
    return h, c


def _swapped(x, w):
    a, b = ex.zeros(4), ex.ones(4)
    for row in x:
        a, b = b, ex.tanh(row @ w + a)
    return a, b


def _ragged_state(x, w):
    scores = x @ w
    for row in x:
        scores = ex.tanh(scores + row @ w)
    return scores


def _attends(x, w):
    h = ex.zeros(4)
    keys = x @ w
    for row in x:
        p = ex.softmax(keys @ h, 0)
        h = ex.tanh(p @ keys + row @ w)
    return h


def _untracked_at_first(x, w):
    total = ex.zeros(3)
    h = ex.zeros(4)
    for row in x:
        total = total + row
        h = h + (total @ w)
    return total, h


def _scalar_state(x, w):
    best = ex.tensor(0.0)
    for row in x:
        best = ex.maximum(best, (row @ w).sum())
    return best


def _constant_steps(x, w):
    h = x @ w
    for _ in range(3):
        h = ex.tanh(h + h.mean(0))
    return h


def _python_sum(x, w):
    return sum((row @ w).sum() for row in x) + 0.0


def _list_of_rows(x, w):
    return ex.stack([ex.tanh(row @ w) for row in x]).sum(0)


def _steps_of_two(x, w):
    h = ex.zeros(4)
    for t in range(0, len(x), 2):
        h = ex.tanh(x[t] @ w + h)
    return h


def _from_the_second(x, w):
    h = x[0] @ w
    for row in x[1:]:
        h = ex.tanh(row @ w + h)
    return h


def _not_read(x, w):
    h = ex.ones(4) * 0.3
    for _ in range(len(x)):
        h = ex.tanh(h * 1.1 + w.sum(0))
    return h


def _slices(x, w):
    h = ex.zeros(4)
    for t in range(1, len(x)):
        h = h + x[:t].sum(0) @ w
    return h


def _last_row(x, w):
    row = x[0]
    for row in x:  # noqa: B007 # it is the last one that counts
        pass
    return row @ w


def _nested_same(x, w):
    total = ex.zeros(4)
    for a in x:
        for b in x:
            total = ex.tanh(total + (a * b) @ w)
    return total


LOOPS = [
    *(_by_index, _by_shape, _reversed, _flipped, _zipped, _one_after_the_other, _appended, _appended_rows, _both_ways),
    *(_two_states, _ragged_state, _attends, _untracked_at_first, _scalar_state, _constant_steps, _list_of_rows),
    *(_steps_of_two, _not_read, _last_row, _nested_same, _enumerated, _python_sum),
]
RECORDED = [_slices]

of_all_lengths = pytest.mark.parametrize("lengths", [(4, 1, 3, 7, 3), (5, 5, 5), (6, 2), (2, 1, 1)], ids=str)


def _loops(*loops):
    return pytest.mark.parametrize("loop", loops, ids=lambda fn: fn.__name__.strip("_"))


@_loops(*LOOPS)
@of_all_lengths
def test_loops_of_all_kinds_give_what_the_plain_loop_gives(loop, lengths):
    w = weight(3, 4)
    check(lambda x: loop(x, w), ragged(3, lengths=lengths), parameters=[w])


@_loops(_from_the_second)
@of_all_lengths
def test_a_loop_that_goes_on_with_what_is_tracked_may_have_no_turn(loop, lengths):
    w = weight(3, 4)
    check(lambda x: loop(x, w), ragged(3, lengths=lengths), parameters=[w])


@_loops(_swapped)
@of_all_lengths
def test_a_state_that_is_tracked_only_after_two_turns_is_recorded_where_there_is_one(loop, lengths):
    w = weight(3, 4)
    n = sum(length > 1 for length in lengths)
    check(lambda x: loop(x, w), ragged(3, lengths=lengths), parameters=[w], ran=n)


@_loops(*RECORDED)
def test_loops_that_a_program_cannot_have_are_recorded(loop):
    w = weight(3, 4)
    check(lambda x: loop(x, w), ragged(3), parameters=[w], ran=False)


@_loops(*LOOPS)
@pytest.mark.parametrize("is_tracked", [False, True])
def test_loops_without_tracked_weights_over_samples_tracked_or_not(loop, is_tracked):
    w = weight(3, 4).detach()
    check(lambda x: loop(x, w), [x.requires_grad_(is_tracked) for x in ragged(3)])


def test_nested_loops_over_two_sizes():
    w = weight(3, 3)

    def fn(x, y):
        total = ex.zeros(3)
        for a in x:
            part = ex.zeros(3)
            for b in y:
                part = ex.tanh(part + (a * b) @ w)
            total = total + part
        return total

    check(fn, ragged(3), ragged(3, lengths=(2, 5, 1, 1, 3)), parameters=[w])


def test_range_of_a_number_of_each_samples_own():
    w = weight(3, 3)

    def fn(x, n):
        for _ in range(n):
            x = ex.tanh(x @ w)
        return x

    check(fn, alike(5, 3), [3, 0, 1, 4, 2], parameters=[w], ran=4)


@pytest.mark.parametrize("join", [ex.stack, ex.cat], ids=["stack", "cat"])
def test_a_list_that_has_no_elements_in_some_sample_is_not_joined(join):
    def fn(x):
        return join([row * 2 for row in x]).sum(0)

    batched = ex.batch(fn)
    for n_rows in ((2, 1, 3), (1, 4, 2)):
        for got, x in zip(batched(ragged(3, lengths=n_rows)), ragged(3, lengths=n_rows), strict=True):
            np.testing.assert_allclose(got.numpy(), fn(x).numpy(), rtol=1e-5)
    with pytest.raises(ex.errors.ShapeError, match="at least one tensor"):
        batched(ragged(3, lengths=(2, 0, 1)))
