"""Ragged tensors are saved without pickle, pickled and copied."""

from __future__ import annotations

import copy
import io
import json
import pickle

import numpy as np
import pytest

import extempo as ex
from extempo.serialization.decoding import decode
from extempo.serialization.files import FileFormatError


def saved(obj):
    file = io.BytesIO()
    ex.save(obj, file)
    file.seek(0)
    return ex.load(file)


MADE = {
    "rows": ex.ragged([[1, 2, 3], [], [4]]),
    "of vectors": ex.ragged([ex.randn(2, 3), ex.randn(0, 3)]),
    "ragged in the last dimension": ex.ragged([ex.randn(2, 3), ex.randn(2, 1)], dim=2),
    "no rows": ex.ragged([]),
    "one empty row": ex.ragged([[]]),
    "bfloat16": ex.ragged([[1.5], [2.5, 3.5]], dtype=ex.bfloat16),
    "bools": ex.ragged([[True], [False, True]]),
    "requires grad": ex.ragged([[1.0], [2.0]], requires_grad=True),
}


def same(a: ex.RaggedTensor, b: ex.RaggedTensor) -> bool:
    return (
        type(a) is type(b)
        and a.tolist() == b.tolist()
        and (a.shape, a.dtype, a.requires_grad, a.is_leaf) == (b.shape, b.dtype, b.requires_grad, b.is_leaf)
        and a.values().shape == b.values().shape
    )


@pytest.mark.parametrize("x", MADE.values(), ids=MADE)
def test_what_is_saved_pickled_or_copied_comes_back(x):
    assert same(saved({"x": x})["x"], x)
    assert same(pickle.loads(pickle.dumps(x)), x)
    assert same(copy.deepcopy(x), x)
    assert same(copy.copy(x), x)


def test_the_file_is_plain_safetensors(tmp_path):
    from safetensors.numpy import load_file

    ex.save({"words": ex.ragged([[1, 2], [3]])}, tmp_path / "f")
    found = load_file(tmp_path / "f")
    assert found["words.values"].tolist() == [1, 2, 3]
    assert found["words.offsets"].tolist() == [0, 2, 3]


def test_tensors_that_share_values_share_them_after_loading():
    x = ex.ragged([[1.0, 2.0], [3.0]])
    back = saved([x, x, x.values()])
    back[2].zero_()
    assert back[0].tolist() == back[1].tolist() == [[0, 0], [0]]


def test_a_copy_has_the_memory_and_a_deep_copy_its_own():
    x = ex.ragged([[1.0, 2.0], [3.0]])
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    x += 1
    assert shallow.tolist() == [[2, 3], [4]]
    assert deep.tolist() == [[1, 2], [3]]


def test_attributes_of_a_user_survive_copies():
    x = ex.ragged([[1.0]])
    x.title = "words"
    assert pickle.loads(pickle.dumps(x)).title == "words"
    assert copy.deepcopy(x).title == "words"
    assert copy.copy(x).title == "words"


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
def test_part_of_a_graph_is_copied_as_little_as_that_of_tensors(copied):
    x = ex.ragged([[1.0], [2.0]], requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        copied(2 * x)
    copied((2 * x).detach())


def test_two_references_to_one_stay_two_references_to_one():
    x = ex.ragged([[1.0], [2.0]])
    for a, b, values in (copy.deepcopy([x, x, x.values()]), pickle.loads(pickle.dumps([x, x, x.values()]))):
        assert a is b
        assert a.values() is values


@pytest.mark.parametrize(
    "change",
    [
        {"dim": 0},
        {"dim": 2},
        {"dim": "1"},
        {"dim": True},
        {"offsets": {"$": "object", "number": 0}},
        {"values": {"$": "object", "number": 1}},
        {"values": 3},
        {"offsets": [0, 3]},
        {"offsets": {"$": "object", "number": 2}},
        {"offsets": {"$": "object", "number": 3}},
        {"offsets": {"$": "object", "number": 4}},
    ],
    ids=json.dumps,
)
def test_a_damaged_description_is_an_error(change):
    node = {"$": "ragged", "dim": 1, "values": {"$": "object", "number": 0}, "offsets": {"$": "object", "number": 1}}
    objects = [ex.arange(3), np.array([0, 3]), np.array([0, 4]), np.array([0, 5, 3]), np.array([0.5, 3])]
    assert decode(node, objects).tolist() == [[0, 1, 2]]
    with pytest.raises(FileFormatError):
        decode({**node, **change}, objects)
