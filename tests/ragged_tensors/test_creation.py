"""Making ragged tensors: from rows, from values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo.errors import DtypeError, IndexRangeError, ShapeError

lengths = st.lists(st.integers(0, 5), max_size=6)


@given(lengths, st.sampled_from([(), (3,), (0,), (2, 3)]))
def test_rows_come_back_as_they_went_in(sizes, rest):
    rows = [ex.randn(n, *rest) for n in sizes]
    x = ex.ragged(rows)
    assert [row.tolist() for row in x] == [row.tolist() for row in rows]
    assert [x[i].tolist() for i in range(len(x))] == [row.tolist() for row in rows]
    assert x.tolist() == [row.tolist() for row in rows]
    assert (len(x), x.lengths().tolist()) == (len(rows), sizes)
    assert x.offsets().tolist() == [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    assert x.numel() == sum(row.numel() for row in rows)


def test_rows_may_be_arrays_and_lists_and_tuples_and_any_iterable():
    assert ex.ragged(iter([np.arange(2), [7], (8, 9)])).tolist() == [[0, 1], [7], [8, 9]]
    assert ex.ragged(ex.ones(2, 3)).tolist() == [[1, 1, 1]] * 2
    x = ex.ragged([[1], [2, 3]])
    assert ex.ragged(x) is x
    assert ex.ragged(x, dtype=ex.float32).dtype is ex.float32


def test_the_dtype_is_the_common_one_and_an_empty_list_has_no_say():
    assert ex.ragged([[1], [2.5]]).dtype is ex.float32
    assert ex.ragged([[], [1, 2], []]).dtype is ex.int64
    assert ex.ragged([[], []]).dtype is ex.float32
    assert ex.ragged([ex.ones(1, dtype=ex.float64), ex.ones(2, dtype=ex.float16)]).dtype is ex.float64
    assert ex.ragged([[1], [2]], dtype=ex.int8).dtype is ex.int8
    assert ex.ragged([], dtype=ex.bool).dtype is ex.bool


def test_an_empty_list_is_an_empty_row_of_the_shape_of_others():
    x = ex.ragged([[], [[1, 2], [3, 4]], []])
    assert tuple(x.values().shape) == (2, 2)
    assert [tuple(row.shape) for row in x] == [(0, 2), (2, 2), (0, 2)]
    y = ex.ragged([[], ex.ones(2, 3)], dim=2)
    assert [tuple(row.shape) for row in y] == [(2, 0), (2, 3)]


def test_the_ragged_dimension_may_be_any_but_the_first():
    x = ex.ragged([ex.ones(2, 3), ex.ones(2, 1)], dim=2)
    assert x.shape == (2, 2, x.shape[2])
    assert tuple(x.values().shape) == (2, 4)
    assert ex.ragged([ex.ones(2, 3), ex.ones(2, 1)], dim=-1).shape == x.shape


def test_gradients_flow_into_rows():
    a, b = ex.ones(2, requires_grad=True), ex.ones(3, requires_grad=True)
    (ex.ragged([a, 2 * b]) * 3).values().sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([3, 3], [6, 6, 6])


def test_requires_grad_makes_a_leaf_that_keeps_its_gradient_in_rows():
    source = ex.ones(2, requires_grad=True)
    x = ex.ragged([source, [1.0]], requires_grad=True)
    assert x.is_leaf
    (x * x).values().sum().backward()
    assert x.grad.tolist() == [[2, 2], [2]]
    assert source.grad is None


@pytest.mark.parametrize(
    ("rows", "options", "error", "message"),
    [
        ([ex.ones(2, 3), ex.ones(2, 4)], {}, ShapeError, "pass dim=2"),
        ([ex.ones(2, 3), ex.ones(3, 4)], {}, ShapeError, "in one dimension only"),
        ([ex.ones(2), ex.ones(2, 1)], {}, ShapeError, "rows have one ndim"),
        ([ex.tensor(1.0)], {}, ShapeError, "row 0 is a single number"),
        ([1, 2], {}, ShapeError, "row 0 is a single number"),
        ([[1], ["a"]], {}, DtypeError, "row 1"),
        ([[1]], {"dim": 0}, ShapeError, "dimension 0 counts the rows"),
        ([[1]], {"dim": 2}, IndexRangeError, "dim"),
        ([[[1], [2, 3]], [[4]]], {}, ShapeError, "row 0 have different lengths; a ragged tensor has one ragged"),
        ([ex.ragged([[1], [2]])], {}, ShapeError, "is itself a ragged tensor; a ragged tensor has one ragged"),
        ([[ex.ones(2), ex.ones(3)]], {}, ShapeError, "list of tensors"),
    ],
)
def test_rows_that_do_not_go_together_say_what_to_do(rows, options, error, message):
    with pytest.raises(error, match=message):
        ex.ragged(rows, **options)


def test_values_and_lengths_or_offsets_make_one_without_a_copy():
    values = ex.arange(5)
    x = ex.ragged_from_values(values, [2, 0, 3])
    assert x.tolist() == [[0, 1], [], [2, 3, 4]]
    assert x.values() is values
    assert ex.ragged_from_values(values, offsets=ex.tensor([0, 2, 2, 5])).tolist() == x.tolist()
    wide = ex.ragged_from_values(ex.ones(2, 5), np.array([2, 3], np.int32), dim=2)
    assert [tuple(row.shape) for row in wide] == [(2, 2), (2, 3)]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((ex.arange(3), [1, 1]), {}, ShapeError, "do not hold rows of lengths"),
        ((ex.arange(3), [4, -1]), {}, ShapeError, "not negative"),
        ((ex.arange(3),), {"offsets": [1, 3]}, ShapeError, "begin with 0"),
        ((ex.arange(3),), {"offsets": [0, 2, 1, 3]}, ShapeError, "never decrease"),
        ((ex.arange(3),), {}, ShapeError, "either lengths or offsets"),
        ((ex.arange(3), [3]), {"offsets": [0, 3]}, ShapeError, "either lengths or offsets"),
        ((ex.arange(3), [1.5, 1.5]), {}, DtypeError, "are integers"),
        (([1, 2, 3], [3]), {}, DtypeError, "expected a tensor"),
    ],
)
def test_values_that_do_not_fit_say_what_to_do(arguments, options, error, message):
    with pytest.raises(error, match=message):
        ex.ragged_from_values(*arguments, **options)


# ---- two ragged levels, by the way that the message names


def test_documents_of_sentences_of_words():
    documents = [[[1, 2, 3], [4]], [[5, 6]], []]
    sentences = ex.ragged([sentence for document in documents for sentence in document])
    embedding = ex.nn.Embedding(7, 4)
    words = embedding(sentences)
    vectors = words.mean(1)
    texts = ex.ragged_from_values(vectors, [len(document) for document in documents])
    summed = texts.sum(1)
    for document, got in zip(documents, summed, strict=True):
        expected = sum((embedding(ex.tensor(s)).mean(0) for s in document), ex.zeros(4))
        assert ex.allclose(got, expected, atol=1e-6)
    summed.sum().backward()
    assert embedding.weight.grad.abs().sum().item() > 0


def test_documents_of_sentences_by_ex_batch():
    documents = [ex.ragged([[1, 2, 3], [4]]), ex.ragged([[5, 6]])]
    embedding = ex.nn.Embedding(7, 4)

    def vector(sentence):
        return embedding(sentence).mean(0)

    def document(sentences):
        return ex.stack([vector(s) for s in sentences]).sum(0)

    for got, given_ in zip(ex.batch(document)(documents), documents, strict=True):
        assert ex.allclose(got, document(given_), atol=1e-6)
