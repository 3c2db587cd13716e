"""Rows by number, within a sample's own rows."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import IndexRangeError

from .sizes import agrees, drawn, forms


def graph(rng, n):
    """Rows, and as many edges from and to them as there happen to be."""
    n_edges = int(rng.integers(1, 9))
    return drawn(rng, n, 3), ex.tensor(rng.integers(0, n, n_edges)), ex.tensor(rng.integers(0, n, n_edges))


def test_rows_are_picked_and_added_to_in_one_batch():
    def fn(x, source, target):
        messages = (x * 2.0)[source].tanh()
        return (x * 0.0).index_add(0, target, messages)

    found = forms(agrees(fn, graph))
    assert found["index_get"] == ["PickForm"]
    assert found["index_put"] == ["PickForm"]


def test_indices_count_from_the_end_as_well():
    def fn(x, source, target):
        return (x * 1.0)[source - len(x)].sum(0) + x.index_select(0, target).sum(0)

    agrees(fn, graph)


def test_an_index_of_several_dimensions():
    def fn(x, source, target):
        return (x * 1.0)[ex.stack([source, target])].sum((0, 1))

    agrees(fn, graph)


def test_an_index_beyond_its_samples_rows_is_an_error_of_that_sample():
    samples = [ex.ones(n, 2) for n in (2, 3, 4)]
    index = [ex.tensor([0, 1]), ex.tensor([1, 3, 2]), ex.tensor([3])]
    for _ in range(3):
        with pytest.raises(IndexRangeError) as error:
            ex.batch(lambda x, i: (x * 1.0)[i])(samples, index)
        assert any("sample 1" in note for note in error.value.__notes__)


def test_indices_for_several_dimensions_count_as_one():
    def fn(x, source, target):
        return (x * 1.0)[source, target % 3] * 2.0 + (x * 2.0)[source, -1 - target % 2]

    assert set(forms(agrees(fn, graph))["index_get"]) == {"PickForm"}


def test_an_element_of_each_row_by_its_number():
    def fn(x, source, target):
        n = len(x)
        return -(x * 1.0).log_softmax(1)[ex.arange(n), ex.arange(n) % 3].mean()

    assert set(forms(agrees(fn, graph))["index_get"]) == {"PickForm"}


def test_the_error_of_an_index_is_that_of_the_plain_loop():
    samples, index = [ex.ones(n, 2) for n in (2, 3, 4)], [ex.tensor([0]), ex.tensor([5, 0]), ex.tensor([1])]
    with pytest.raises(IndexRangeError) as alone:
        samples[1][index[1]]
    with pytest.raises(IndexRangeError) as error:
        ex.batch(lambda x, i: (x * 1.0)[i])(samples, index)
    assert str(error.value) == str(alone.value)
