"""Ops that treat rows by themselves: calls of any number of rows are one batch of the op on one row."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.batching.op_kinds import kind_of
from extempo.batching.sizes.by_rows import row_form

from .sizes import agrees, drawn, forms

F = nn.functional


def rows(rng, n):
    return drawn(rng, n, 4)


LINEAR, NORM = nn.Linear(4, 3), nn.LayerNorm(4)
TABLE = nn.Embedding(9, 4)
POSITION = nn.Parameter(ex.ones(4))


@pytest.mark.parametrize(
    ("fn", "parameters", "op"),
    [
        (lambda x: (x * 2.0 + 1.0).tanh(), (), "tanh"),
        (lambda x: x + x.exp(), (), "add"),
        (lambda x: x + POSITION, (POSITION,), "add"),
        (lambda x: F.linear(x, LINEAR.weight, LINEAR.bias), tuple(LINEAR.parameters()), "linear"),
        (lambda x: x @ LINEAR.weight.T, tuple(LINEAR.parameters()), "matmul"),
        (lambda x: F.layer_norm(x, (4,), NORM.weight, NORM.bias), tuple(NORM.parameters()), "standardize"),
        (lambda x: x.softmax(1), (), "softmax"),
        (lambda x: x.sum(1), (), "sum"),
        (lambda x: x.mean(-1, keepdim=True) * x, (), "mean"),
        (lambda x: ex.cat([x, x * 3.0], 1), (), "cat"),
        (lambda x: (x * 1.0)[:, 1:3], (), "slice"),
        (lambda x: ex.where(x > 0, x, 0.1 * x), (), "where"),
        (lambda x: x.max(1).values, (), None),
        (lambda x: x.reshape(len(x), 2, 2).transpose(1, 2).exp(), (), "permute"),
    ],
)
def test_rows_of_all_samples_are_one_batch(fn, parameters, op):
    batched = agrees(fn, rows, parameters)
    if op is not None:
        assert forms(batched)[op] == ["RowForm"]


def test_an_input_of_a_sample_that_all_its_rows_have_is_repeated_for_them():
    def fn(x, h):
        return (x + h).exp() * h.sum()

    batched = agrees(fn, lambda rng, n: (drawn(rng, n, 4), drawn(rng, 4)))
    assert forms(batched)["add"] == ["RowForm"]


def test_rows_of_no_elements_and_samples_without_rows():
    fn = lambda x: (x * 2.0, F.linear(x, LINEAR.weight, LINEAR.bias).relu())  # noqa: E731 # a function of one sample
    agrees(fn, rows, LINEAR.parameters(), [(0, 3, 1), (0, 0, 2), (0, 0, 0), (5, 0, 4)])


def test_numbers_may_differ_from_sample_to_sample():
    def fn(x, a):
        return x * a + 1.0

    rng = np.random.default_rng(0)
    samples = [drawn(rng, n, 2) for n in (2, 3, 4)]
    for scales in ([2.0, 2.0, 2.0], [1.0, 2.0, 3.0]):
        expected = [fn(x, a) for x, a in zip(samples, scales, strict=True)]
        for got, y in zip(ex.batch(fn)(samples, scales), expected, strict=True):
            assert ex.allclose(got, y)


def test_embeddings_of_whole_sentences_are_one_batch():
    def fn(words):
        return F.embedding(words, TABLE.weight).sum(0)

    def sentence(rng, n):
        return ex.tensor(rng.integers(0, 9, n))

    assert forms(agrees(fn, sentence, TABLE.parameters()))["embedding"] == ["RowForm"]


def test_weights_that_each_sample_takes_a_view_of_are_shared():
    packed = nn.Parameter(ex.arange(48.0).reshape(12, 4) / 48)

    def fn(x):
        q, k, v = packed.chunk(3)
        return F.linear(x, q) * F.linear(x, k) + F.linear(x, v)

    batched = agrees(fn, rows, [packed])
    assert set(forms(batched)["linear"]) == {"RowForm"}


@pytest.mark.parametrize(
    ("fn", "n"),
    [
        (lambda x: x.sum(0), None),
        (lambda x: x.softmax(0), None),
        (lambda x: x.flip(0), None),
        (lambda x: x.T, None),
        (lambda x: x.sum(1), 3),
        (lambda x: x * x, 12),  # every element is a row
        (lambda x: x + ex.ones(4), 3),
    ],
)
def test_what_is_by_rows_follows_from_the_batching_rule(fn, n, monkeypatch):
    seen = []

    class Recorder:
        def apply(self, op, inputs, attrs):
            seen.append(kind_of(op, inputs, attrs, False)[0])
            return inputs[0]

    from extempo.core.context import switch

    x, ones = ex.ones(3, 4), ex.ones(4)
    monkeypatch.setattr(ex, "ones", lambda *shape: ones)
    with switch(interceptor=Recorder()):
        fn(x)
    form = row_form(seen[-1])
    assert (None if form is None else form.n) == n


def test_numbers_of_samples_leave_half_precision_as_it_is():
    samples, scales = [ex.ones(n, dtype=ex.bfloat16) for n in (2, 3, 4, 5)], [1.5, 2.5, 3.5, 4.5]
    for _ in range(2):
        made = ex.batch(lambda x, a: (x * a) + 1.0)(samples, scales)
        assert [y.dtype for y in made] == [ex.bfloat16] * 4
        assert [y[0].item() for y in made] == [2.5, 3.5, 4.5, 5.5]
