"""Ops with a way of their own: picks, slices, products, attention, losses, recurrences."""

from __future__ import annotations

import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn
from extempo.errors import IndexRangeError

from .loops_beside import LENGTHS, alike, assert_same, check, n_in_lockstep, ragged, weight


def _indices(lengths=LENGTHS, extra=0):
    """An index into rows for each row, from both ends."""
    return [ex.tensor([(i * 3) % n - (n if i % 2 else 0) for i in range(n + extra)]) for n in lengths]


def _targets(n_classes, lengths=LENGTHS):
    return [ex.tensor([(i * 7 + n) % n_classes for i in range(n)]) for n in lengths]


# ---- picks


def test_words_are_looked_up_in_a_table_that_all_share():
    table = weight(6, 4)
    check(lambda words: F.embedding(words, table).sum(0), _targets(6), parameters=[table])
    check(lambda words: table[words], _targets(6), parameters=[table])


def test_rows_are_picked_by_an_index_of_each_samples_own():
    w = weight(3, 4)
    check(lambda x, index: (x @ w)[index], ragged(3), _indices(), parameters=[w])
    check(lambda x, index: (x @ w)[index], ragged(3), _indices(extra=2), parameters=[w])
    check(lambda x, index: (x @ w).index_select(0, index % len(x)), ragged(3), _indices(), parameters=[w])


def test_rows_are_picked_by_an_index_of_one_shape():
    w = weight(3, 4)
    indices = [ex.tensor([0, -1, n // 2]) for n in LENGTHS]
    check(lambda x, index: (x @ w)[index], ragged(3), indices, parameters=[w])
    check(lambda x, index: (x @ w)[index[0]], ragged(3), indices, parameters=[w])


def test_elements_of_one_shape_are_picked_by_an_index_of_each_samples_own():
    w = weight(3, 4)
    check(lambda x, index: (x @ w)[index], alike(5, 6, 3), _targets(6), parameters=[w])


@pytest.mark.parametrize("bad", [7, -8])
def test_an_index_out_of_range_is_that_of_its_sample(bad):
    w = weight(3, 4)

    def fn(x, index):
        return (x @ w)[index].sum(0)

    batched = ex.batch(fn)
    batched(ragged(3), _indices())
    indices = _indices()
    indices[3] = ex.tensor([0, bad])
    with pytest.raises(IndexRangeError, match="is out of range") as caught:
        batched(ragged(3), indices)
    assert any("sample 3 of ex.batch" in note for note in caught.value.__notes__)
    assert_same(batched(ragged(3), _indices()), [fn(*s) for s in zip(ragged(3), _indices(), strict=True)], "result")


def test_an_index_of_one_sample_never_reaches_the_rows_of_another():
    w = weight(3, 4)

    def fn(x, index):
        return (x @ w)[index]

    batched = ex.batch(fn)
    batched(ragged(3), _indices())
    indices = _indices()
    indices[1] = ex.tensor([1])  # a row that only the next sample has
    with pytest.raises(IndexRangeError):
        batched(ragged(3), indices)


def test_values_are_written_to_rows_of_each_sample():
    def fn(x, index, y):
        made = x * 1.0
        made[index] = y
        return made

    indices = [ex.tensor([n - 1, 0]) for n in LENGTHS if n > 1]
    samples = [x for x in ragged(3) if len(x) > 1]
    expected = [fn(*s) for s in zip(samples, indices, alike(4, 2, 3), strict=True)]
    assert_same(ex.batch(fn)(samples, indices, alike(4, 2, 3)), expected, "result")


# ---- stretches


SLICES = {
    "first": lambda y: y[0],
    "last": lambda y: y[-1],
    "middle": lambda y: y[len(y) // 2],
    "all but the last": lambda y: y[:-1],
    "all but the first": lambda y: y[1:],
    "second half": lambda y: y[len(y) // 2 :],
    "at most two": lambda y: y[:2],
    "the last two": lambda y: y[-2:],
    "every second": lambda y: y[::2],
    "a column": lambda y: y[:, 1],
    "columns": lambda y: y[:, 1:3],
    "an element": lambda y: y[0, 1],
    "last of columns": lambda y: y[-1, 1:],
    "new dimension": lambda y: y[:, None, 1:],
    "narrow": lambda y: y.narrow(0, 0, 1),
    "unbind": lambda y: y.unbind(1)[2],
    "split": lambda y: y.split(2, 1)[1],
    "chunk": lambda y: y.chunk(2, 1)[0],
}


@pytest.mark.parametrize("name", SLICES)
def test_a_stretch_of_rows_is_that_of_the_loop(name):
    w, cut = weight(3, 4), SLICES[name]
    batched = ex.batch(lambda x: cut(x @ w) * 2)
    for lengths in (LENGTHS, (2, 2), (1, 5)):
        samples = ragged(3, lengths=lengths)
        assert_same(batched(samples), [cut(x @ w) * 2 for x in samples], name)
    assert n_in_lockstep(batched) == 2


# ---- products and attention


def test_rows_times_a_vector_of_each_sample():
    w = weight(3, 4)
    check(lambda x: (x @ w) @ (x @ w).sum(0), ragged(3), parameters=[w])
    check(lambda x: F.softmax((x @ w).sum(1), 0) @ x, ragged(3), parameters=[w])
    check(lambda x: (x @ w).sum(1) @ (x @ w).amax(1), ragged(3), parameters=[w])


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_each_samples_own_rows(causal):
    w = weight(3, 4)

    def fn(x):
        q, k, v = x @ w, x @ w * 0.5, x @ w - 1
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0].sum(0)

    check(fn, ragged(3), parameters=[w])


def test_attention_of_several_heads():
    ex.manual_seed(1)
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    layer.eval()

    def fn(x):
        return layer(x[None], x[None], x[None], need_weights=False)[0][0].sum(0)

    check(fn, ragged(4), parameters=layer.parameters())


# ---- losses


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_cross_entropy_of_rows(reduction):
    w = weight(3, 4)

    def fn(x, target):
        return F.cross_entropy(x @ w, target, reduction=reduction)

    check(fn, ragged(3), _targets(4), parameters=[w])
    check(fn, alike(4, 2, 3), [ex.tensor([i % 4, 3]) for i in range(4)], parameters=[w])


def test_cross_entropy_of_one_choice():
    w = weight(3, 4)
    labels = [ex.tensor(i % 4) for i in range(5)]
    check(lambda x, label: F.cross_entropy((x @ w).sum(0), label), ragged(3), labels, parameters=[w])


def test_cross_entropy_over_the_rows_of_a_sample():
    w = weight(3)
    labels = [ex.tensor(n - 1) for n in LENGTHS]
    check(lambda x, label: F.cross_entropy((x * w).sum(1), label), ragged(3), labels, parameters=[w])


def test_targets_that_are_ignored_do_not_count():
    w = weight(3, 4)
    targets = _targets(4)
    targets[3][2] = -100
    check(lambda x, target: F.cross_entropy(x @ w, target), ragged(3), targets, parameters=[w])
    check(lambda x, target: F.cross_entropy(x @ w, target), ragged(3), _targets(4), parameters=[w])


def test_a_target_that_is_no_class_is_that_of_the_loop():
    w = weight(3)
    fn = lambda x, label: F.cross_entropy((x * w).sum(1), label)  # noqa: E731
    batched = ex.batch(fn)
    batched(ragged(3), [ex.tensor(0)] * 5)
    labels = [ex.tensor(0), ex.tensor(1), ex.tensor(0), ex.tensor(0), ex.tensor(0)]
    with pytest.raises(IndexRangeError):
        fn(ragged(3)[1], labels[1])
    with pytest.raises(IndexRangeError):
        batched(ragged(3), labels)


# ---- recurrences


@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bidirectional": True}], ids=str)
def test_recurrent_layers_over_rows_of_each_samples_own(cls, options):
    ex.manual_seed(2)
    layer = cls(3, 4, **options)

    def fn(x):
        rows, state = layer(x)
        return rows, state

    check(fn, ragged(3), parameters=layer.parameters())


def test_cumulative_sums_of_integers():
    check(lambda x: x.cumsum(0), _targets(5))
    check(lambda x: (x > 0).cumsum(0), ragged(3))
