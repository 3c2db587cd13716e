"""Which calls go together: those of one op at several sizes that one line has made."""

from __future__ import annotations

import gc
import weakref

import pytest

import extempo as ex
from extempo import nn

from .sizes import agrees, drawn, forms


def rows(rng, n):
    return drawn(rng, n, 3)


def test_a_loop_over_rows_needs_no_more_batches_than_one_over_tokens():
    cell, table = nn.RNNCell(3, 3), nn.Embedding(9, 3)

    def whole(words):
        x, h = table(words), ex.zeros(3)
        for t in range(len(x)):
            h = cell(x[t], h)
        return h

    def by_word(words):
        h = ex.zeros(3)
        for t in range(len(words)):
            h = cell(table(words[t]), h)
        return h

    def sentence(rng, n):
        return ex.tensor(rng.integers(0, 9, n))

    parameters = [*cell.parameters(), *table.parameters()]
    launches = [agrees(fn, sentence, parameters).stats()["launches"] for fn in (whole, by_word)]
    assert launches[0] <= launches[1]


def test_calls_of_sizes_that_come_up_later_are_recorded_with_the_others():
    batched = ex.batch(lambda x: (x * 2.0).exp().sum(0))
    for lengths in ((2, 3), (5, 9), (11, 4, 70)):
        made = batched([ex.ones(n, 2) for n in lengths])
        assert [round(y[0].item(), 3) for y in made] == [round(n * 7.38905609893065, 3) for n in lengths]
    assert batched.stats()["launches"] == 3


def test_lines_that_run_at_different_times_stay_apart():
    def fn(x):
        h = ex.zeros(3)
        for t in range(len(x)):
            h = (h + x[t]).tanh()
        y = (x + x).tanh()
        return h + y.sum(0)

    batched = agrees(fn, rows)
    assert sorted(forms(batched)["tanh"])[-1] == "RowForm"
    assert batched.stats()["launches"] < 50


def test_one_size_runs_as_if_there_were_no_others():
    batched = ex.batch(lambda x: (x * 2.0).sum(0))
    for lengths in ((3, 3, 3), (2, 3, 4), (4, 4, 4)):
        batched([ex.ones(n, 2) for n in lengths])
        assert {form for of_op in forms(batched).values() for form in of_op} == (
            {""} if len(set(lengths)) == 1 else {"RowForm", "AlongForm"}
        )


def test_a_size_with_many_calls_has_batches_of_its_own():
    batched = ex.batch(lambda x: (x * 2.0).exp())
    for _ in range(2):
        batched([ex.ones(n, 2) for n in [3] * 70 + [2, 4, 5, 6, 7]])
    assert sorted(forms(batched)["exp"]) == ["", "RowForm"]


def test_a_sample_that_branches_on_a_value_of_its_own_rows():
    def fn(x):
        y = x * 1.0
        while y.abs().max() > 0.5:
            y = y * 0.5
        return y.sum(0)

    agrees(fn, rows)


def test_samples_of_samples_have_sizes_of_their_own():
    def inner(x):
        return (x * 2.0).softmax(0).sum()

    def fn(x):
        return ex.stack(ex.batch(inner)([x[: t + 1] for t in range(len(x))])).sum()

    agrees(fn, rows)


def test_an_error_in_one_sample_names_it_and_leaves_the_others_to_run_again():
    batched = ex.batch(lambda x: (x * 1.0) @ ex.ones(3, 2))
    good = [ex.ones(n, 3) for n in (2, 4, 5)]
    with pytest.raises(ex.errors.ShapeError):
        batched([*good, ex.ones(2, 4)])
    assert [tuple(y.shape) for y in batched(good)] == [(2, 2), (4, 2), (5, 2)]


def test_weights_go_with_their_module():
    layer = nn.Linear(3, 3)
    gone = weakref.ref(layer.weight)
    for lengths in ((2, 3, 4), (5, 6, 7)):
        ex.batch(layer)([ex.ones(n, 3) for n in lengths])
    del layer
    gc.collect()
    assert gone() is None


def test_it_works_inside_a_compiled_function():
    layer = nn.Linear(3, 3)

    @ex.compile
    def step(samples):
        return ex.stack(ex.batch(lambda x: layer(x).relu().sum())(samples)).sum()

    for lengths in ((2, 3, 4), (5, 6, 7), (1, 2, 8)):
        samples = [ex.ones(n, 3) for n in lengths]
        expected = sum(layer(x).relu().sum() for x in samples)
        assert ex.allclose(step(samples), expected, rtol=1e-4)
