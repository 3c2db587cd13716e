"""Between ragged and padded tensors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo.errors import DtypeError, IndexRangeError, ShapeError

from .looped import FEW, LENGTHS, ragged_leaf, same


@FEW
@given(LENGTHS, st.sampled_from([1, 2]))
def test_padding_and_back_is_the_identity_with_gradients(lengths, dim):
    x = ragged_leaf(lengths, 3, dim=dim)
    padded = x.to_padded_tensor(7.0)
    longest = max(lengths, default=0)
    assert padded.shape[0] == len(lengths)
    assert padded.shape[dim] == longest
    for i, n in enumerate(lengths):
        row = padded[i].movedim(dim - 1, 0)
        assert row[:n].tolist() == x[i].movedim(dim - 1, 0).tolist()
        assert (row[n:] == 7.0).all().item()
    back = ex.ragged_from_padded(padded, lengths, dim=dim)
    assert back.shape == x.shape
    same(back.values(), x.values(), [x])


@FEW
@given(LENGTHS)
def test_the_mask_says_which_elements_are_there(lengths):
    x = ragged_leaf(lengths, 2)
    mask = x.mask()
    assert mask.tolist() == [[i < n for i in range(max(lengths, default=0))] for n in lengths]
    assert x.to_padded_tensor(0.0)[mask].tolist() == x.values().tolist()
    assert ex.ragged_from_padded(x.to_padded_tensor(0.0), mask=mask).tolist() == x.tolist()


def test_a_mask_may_have_holes():
    padded = ex.arange(6).view(2, 3)
    made = ex.ragged_from_padded(padded, mask=ex.tensor([[True, False, True], [False, False, False]]))
    assert made.tolist() == [[0, 2], []]


def test_a_larger_output_size():
    x = ex.ragged([[1, 2], [3]])
    assert x.to_padded_tensor(0, (3, 4)).tolist() == [[1, 2, 0, 0], [3, 0, 0, 0], [0, 0, 0, 0]]
    assert ex.nested.to_padded_tensor(x, 9, output_size=(2, 3)).tolist() == [[1, 2, 9], [3, 9, 9]]
    with pytest.raises(ShapeError, match="too small"):
        x.to_padded_tensor(0, (2, 1))
    with pytest.raises(ShapeError, match="pads regular dimensions"):
        ex.ragged([ex.ones(1, 2)]).to_padded_tensor(0.0, (1, 1, 3))


def test_integers_and_bools_are_padded_with_their_own():
    assert ex.ragged([[True], [False, True]]).to_padded_tensor(False).tolist() == [[True, False], [False, True]]
    assert ex.ragged([[1], [2, 3]]).to_padded_tensor(-1).dtype is ex.int64


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((ex.ones(2, 3), [1, 4]), {}, ShapeError, "2 lengths between 0 and 3"),
        ((ex.ones(2, 3), [1]), {}, ShapeError, "2 lengths between 0 and 3"),
        ((ex.ones(2, 3), [1, -1]), {}, ShapeError, "2 lengths between 0 and 3"),
        ((ex.ones(2, 3),), {}, ShapeError, "either lengths or a mask"),
        ((ex.ones(2, 3),), {"mask": np.ones((2, 2), bool)}, ShapeError, r"bools of shape \(2, 3\)"),
        ((ex.ones(2, 3),), {"mask": ex.ones(2, 3)}, ShapeError, "must be bools"),
        ((ex.ones(2, 3), [1, 1]), {"dim": 0}, ShapeError, "dimension 0 counts the rows"),
        ((ex.ones(2, 3), [1, 1]), {"dim": 2}, IndexRangeError, "dim"),
        ((np.ones((2, 3)), [1, 1]), {}, DtypeError, "expected a tensor"),
    ],
)
def test_what_does_not_fit_says_what_to_do(arguments, options, error, message):
    with pytest.raises(error, match=message):
        ex.ragged_from_padded(*arguments, **options)


def test_only_ragged_tensors_have_something_to_pad():
    with pytest.raises(AttributeError, match=r"ex\.ragged\(rows\) makes a ragged one"):
        ex.ones(2).to_padded_tensor(0.0)
    with pytest.raises(DtypeError, match="expected a ragged tensor"):
        ex.nested.to_padded_tensor(ex.ones(2), 0.0)
    assert not hasattr(ex.ones(2), "to_padded_tensor")


def test_the_functions_for_lists_of_sequences_take_a_ragged_tensor():
    x = ex.ragged([[1.0, 2.0], [3.0]])
    assert ex.nn.utils.rnn.pad_sequence(x, batch_first=True).tolist() == [[1, 2], [3, 0]]
    assert ex.nn.utils.rnn.pack_sequence(x).batch_sizes.tolist() == [2, 1]
