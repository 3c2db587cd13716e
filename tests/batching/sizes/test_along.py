"""Reductions, softmaxes and scans over rows of a sample's own number, as ragged tensors have them."""

from __future__ import annotations

import pytest

import extempo as ex

from .sizes import agrees, drawn, forms


def rows(rng, n):
    return drawn(rng, n, 3)


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (lambda x: x.sum(0), "sum"),
        (lambda x: (x * 2.0).mean(0), "mean"),
        (lambda x: x.mean(0, keepdim=True), "mean"),
        (lambda x: x.softmax(0), "softmax"),
        (lambda x: x.log_softmax(0), "log_softmax"),
        (lambda x: x.logsumexp(0), "logsumexp"),
        (lambda x: x.amax(0), "amax"),
        (lambda x: x.cumsum(0), "cumsum"),
        (lambda x: x.argmax(0), "argmax"),
        (lambda x: x[:, 0].exp().softmax(0), "softmax"),
        (lambda x: (x @ x.T).softmax(1), "softmax"),
        (lambda x: (x @ x.T).sum(1), "sum"),
        (lambda x: x.sum(), "sum"),
        (lambda x: (x * x).mean(), "mean"),
        (lambda x: x.unflatten(1, (3, 1)).amax((0, 1)), "amax"),
        (lambda x: x.norm(), "vector_norm"),
        (lambda x: (x > 0).any(), "any"),
        (lambda x: x.prod(0), "prod"),
        (lambda x: x.cumprod(0), "cumprod"),
        (lambda x: x.logcumsumexp(0), "logcumsumexp"),
        (lambda x: x.topk(1, 0).values, "topk"),
        (lambda x: x.sort(0).values, "gather"),
        (lambda x: (x * 1.0).roll(1, 0), "roll"),
        (lambda x: (x * 1.0).T.roll(-2, 1), "roll"),
        (lambda x: x.std(0, unbiased=False) + x.var(0, unbiased=False), "mean"),
    ],
)
def test_rows_of_any_length_are_one_batch(fn, op):
    assert forms(agrees(fn, rows))[op] == ["AlongForm"]


def test_a_maximum_gives_values_and_places():
    agrees(lambda x: list(x.max(0)), rows)


def test_rows_of_no_length_give_what_the_op_gives_for_them():
    agrees(lambda x: (x.sum(0), (x * 1.0).softmax(0)), rows, lengths=[(0, 3, 2), (1, 0, 0)])


def test_an_extreme_of_nothing_is_the_same_error_as_alone():
    samples = [ex.ones(2, 3), ex.ones(0, 3), ex.ones(4, 3)]
    with pytest.raises(Exception) as alone:  # noqa: PT011 # whatever it is
        samples[1].amax(0)
    with pytest.raises(type(alone.value)):
        ex.batch(lambda x: x.amax(0))(samples)


def with_places(rng, n):
    n_places = int(rng.integers(1, 7))
    return drawn(rng, n, 3), ex.tensor(rng.integers(0, n, (n_places, 3))), drawn(rng, n_places, 3)


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (lambda x, i, src: (x * 1.0).gather(0, i) * src, "gather"),
        (lambda x, i, src: ex.take_along_dim(x * 1.0, i, 0) + src, "gather"),
        (lambda x, i, src: (x * 1.0).scatter_add(0, i, src * 2.0), "scatter"),
        (lambda x, i, src: ((x * 1.0).scatter(0, i[:1], 3.0), src), "scatter"),
        (lambda x, i, src: (x * 1.0).scatter_reduce(0, i, src * 2.0, "amax"), "scatter_reduce"),
        (lambda x, i, src: (ex.zeros(len(x)).scatter_add(0, i[:, 0], (src * 2.0)[:, 1]), x), "scatter"),
    ],
)
def test_elements_are_picked_and_put_by_indices_of_own_lengths(fn, op):
    assert forms(agrees(fn, with_places))[op] == ["AlongForm"]


def test_an_index_beyond_its_samples_rows_is_the_error_of_the_plain_loop():
    samples, index = (
        [ex.ones(n, 2) for n in (2, 3, 4)],
        [ex.zeros(n, 2, dtype=ex.int64) + n // 3 * 3 for n in (2, 3, 4)],
    )
    index[2][0] = 0
    with pytest.raises(ex.errors.IndexRangeError) as alone:
        samples[1].gather(0, index[1])
    with pytest.raises(ex.errors.IndexRangeError) as error:
        ex.batch(lambda x, i: (x * 1.0).gather(0, i))(samples, index)
    assert str(error.value) == str(alone.value)
    assert any("sample 1" in note for note in error.value.__notes__)
