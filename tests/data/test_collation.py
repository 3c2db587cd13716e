"""Collating: as PyTorch where samples are alike, ragged where lengths differ, a list where their shapes do."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import extempo as ex
from extempo.data import default_collate, default_convert

Pair = collections.namedtuple("Pair", ["x", "y"])


def plain(value):
    """Nested lists and the dtypes in them, for either library's batches."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return (str(value.dtype).rpartition(".")[2], value.tolist())
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if hasattr(value, "_fields"):
        return (type(value), *map(plain, value))
    if isinstance(value, list | tuple):
        return (type(value), [plain(entry) for entry in value])
    return value


ALIKE = {
    "ints": [1, 2],
    "floats": [1.5, 2.5],
    "bools": [True, False],
    "strings": ["a", "b"],
    "bytes": [b"a", b"b"],
    "arrays": [np.arange(3.0), np.ones(3)],
    "small arrays": [np.zeros((2, 2), np.float32), np.ones((2, 2), np.float32)],
    "numpy numbers": [np.float32(1), np.float32(2)],
    "numpy float64, a float too": [np.float64(1), np.float64(2)],
    "float first": [1.5, 2],
    "numpy and plain numbers": [np.float64(1), 2.5],
    "tuples": [(1, "a"), (2, "b")],
    "lists": [[1, 2.0], [3, 4.0]],
    "named tuples": [Pair(1, np.ones(2)), Pair(2, np.zeros(2))],
    "dicts": [{"x": 1, "y": [1, 2]}, {"x": 2, "y": [3, 4]}],
    "ordered dicts": [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
    "one sample": [(np.ones(2), 3)],
}


@pytest.mark.parametrize("batch", ALIKE.values(), ids=ALIKE)
def test_alike_samples_collate_as_in_pytorch(batch):
    torch_data = pytest.importorskip("torch.utils.data", reason="compares with PyTorch")
    assert plain(default_collate(batch)) == plain(torch_data.default_collate(batch))
    assert plain(default_convert(batch)) == plain(torch_data.default_convert(batch))


def test_tensors_of_one_shape_are_stacked_and_of_different_lengths_become_ragged():
    assert default_collate([ex.ones(2), ex.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    ragged = default_collate([ex.ones(2), ex.zeros(3)])
    assert isinstance(ragged, ex.RaggedTensor)
    assert ragged.tolist() == [[1, 1], [0, 0, 0]]
    wide = default_collate([ex.ones(2, 4), ex.zeros(0, 4)])
    assert tuple(wide.values().shape) == (2, 4)


def test_tensors_that_differ_otherwise_stay_a_list():
    for samples in ([ex.ones(2, 3), ex.ones(2, 4)], [ex.ones(2), ex.ones(2, 1)], [ex.ones(1, 2), ex.ones(2, 3)]):
        batch = default_collate(samples)
        assert isinstance(batch, list)
        assert all(kept is given for kept, given in zip(batch, samples, strict=True))


def test_ragged_samples_stay_a_list():
    documents = [ex.ragged([[1, 2], [3]]), ex.ragged([[4]])]
    assert default_collate(documents) == documents
    assert default_convert(documents) == documents


def test_arrays_of_different_lengths_become_ragged():
    batch = default_collate([(np.arange(2), 0), (np.arange(3), 1)])
    assert batch[0].tolist() == [[0, 1], [0, 1, 2]]
    assert isinstance(batch[0], ex.RaggedTensor)
    assert batch[1].tolist() == [0, 1]


def test_a_default_dict_stays_one():
    batch = default_collate([collections.defaultdict(list, a=1), collections.defaultdict(list, a=2)])
    assert batch["a"].tolist() == [1, 2]
    assert batch["missing"] == []


def test_lists_of_different_lengths_say_how_to_keep_them():
    with pytest.raises(ValueError, match=r"different lengths, \[1, 2\].*ex\.tensor\(sample\)"):
        default_collate([[1, 2], [3]])


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([None, None], "got NoneType"),
        ([1, "a"], "different types, int and str"),
        ([{"a": 1}, {"b": 1}], "different keys"),
        ([np.array(["a"]), np.array(["b"])], "cannot be a tensor"),
        ([object(), object()], "got object"),
    ],
)
def test_what_cannot_be_collated_is_named(batch, message):
    with pytest.raises((TypeError, ValueError), match=message):
        default_collate(batch)


def test_convert_leaves_what_is_no_array():
    word = np.array(["a"])
    assert default_convert((1, "a", word))[2] is word
    assert default_convert(3) == 3
