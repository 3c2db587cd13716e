"""Views that are no stretch of memory, of values of any size: copied for all samples at once."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.backends import selection
from extempo.batching.sizes.views import copy_views, pieces_of, words_of

from .sizes import agrees, drawn, forms


def rows(rng, n):
    return drawn(rng, n, 3)


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (lambda x: (x * 1.0).T, "permute"),
        (lambda x: (x * 1.0)[::2], "slice"),
        (lambda x: (x * 1.0)[1::2, 1], "slice"),
        (lambda x: (x @ x.T).diagonal(), "diagonal"),
        (lambda x: (x * 1.0).reshape(len(x), 1, 3).permute(1, 2, 0), "permute"),
        (lambda x: (x * 1.0).flip(0), "flip"),
        (lambda x: (x * 1.0).flip((0, 1)), "flip"),
        (lambda x: (x * 1.0).unflatten(1, (3, 1, 1)).permute(1, 2, 3, 0)[None, None], "permute"),
    ],
)
def test_views_of_all_samples_are_one_batch(fn, op):
    assert set(forms(agrees(fn, rows, lengths=[(3, 5, 2), (4, 6, 2), (3, 8, 5)]))[op]) == {"ViewForm"}


def test_an_empty_view_is_one():
    agrees(lambda x: (x * 1.0)[::2].T, rows, lengths=[(0, 3, 1), (0, 2, 5)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("backend", ["native", "numpy"])
def test_views_are_copied_and_put_back(dtype, backend, monkeypatch):
    if backend == "numpy":
        monkeypatch.setattr(selection, "native", lambda: None)
    whole = np.arange(24, dtype=dtype)
    # The transpose of a 3 x 4 matrix at 0, and every second of six elements from 13 on.
    words = np.array([[0, 0, 1, 1, 4, 3, 0, 0, 1, 4], [13, 12, 1, 1, 1, 3, 0, 0, 0, 2]], np.int64)
    made = np.zeros(15, dtype)
    copy_views(whole, made, words, False)
    expected = [*whole[:12].reshape(3, 4).T.reshape(-1), *whole[13:19:2]]
    assert made.tolist() == expected
    back = np.zeros(24, dtype)
    copy_views(back, made, words, True)
    assert back[:12].tolist() == whole[:12].tolist()
    assert np.flatnonzero(back[12:]).tolist() == [1, 3, 5]


def test_pieces_are_parts_of_an_array_one_after_the_other():
    pieces = pieces_of(np.arange(5), np.array([2, 0, 3]))
    assert [piece.tolist() for piece in pieces] == [[0, 1], [], [2, 3, 4]]


def test_transposes_of_half_precision_are_copied_as_well():
    samples = [ex.ones(n, 3, dtype=ex.bfloat16) for n in (2, 3, 4)]
    for _ in range(2):
        made = ex.batch(lambda x: (x * 2).T)(samples)
        assert [tuple(y.shape) for y in made] == [(3, 2), (3, 3), (3, 4)]
        assert all((y == 2).all() for y in made)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: ex.nn.functional.pad(x * 1.0, (0, 0, 1, 2)),
        lambda x: ex.nn.functional.pad((x * 1.0).T, (2, 0), value=3.0),
        lambda x: ex.nn.functional.pad(x @ x.T, (1, 1, 0, 1), value=float(len(x))),
    ],
)
def test_pads_of_all_samples_are_one_batch(fn):
    assert forms(agrees(fn, rows, lengths=[(3, 5, 2), (4, 6, 1), (0, 8, 5)]))["constant_pad"] == ["PadForm"]


def test_views_of_more_dimensions_are_merged_where_they_go_on():
    assert words_of((2, 1, 3, 4), (12, 7, 4, 1)) == ((1, 1, 1, 24), (0, 0, 0, 1))
    assert words_of((2, 3, 4), (1, 2, 6)) == ((1, 2, 3, 4), (0, 1, 2, 6))
    assert words_of((2, 2, 2, 2, 2), (1, 2, 4, 8, 16)) is None
