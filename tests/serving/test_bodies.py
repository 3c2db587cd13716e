"""Bodies as samples and results as bodies; whatever is wrong with a body is said, and nothing of it is believed."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

from extempo.core.types import TensorType, bool_, float32, int8, int64
from extempo.exporting.calls import ProgramInput
from extempo.exporting.sizes import parse_size
from extempo.serving.bodies import JSON, NPZ, read_body, write_body
from extempo.serving.refusals import BadRequest

N = parse_size("n")
X = ProgramInput("x", TensorType((N, 2), float32))
TOKENS = ProgramInput("tokens", TensorType((N,), int64))


def read(body, *inputs, media=JSON, max_body=10_000):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_body(media, body, inputs, max_body, 100)


def one(value, spec):
    (sample,) = read({"inputs": {spec.name: value}}, spec).of
    return sample[spec.name]


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


# ---- JSON


def test_nested_lists_become_arrays_of_the_inputs_type():
    array = one([[1, 2], [3, 4.5]], X)
    assert array.dtype == np.float32
    assert array.tolist() == [[1, 2], [3, 4.5]]
    assert one([3, 4], TOKENS).dtype == np.int64
    assert one(True, ProgramInput("flag", TensorType((), bool_))).dtype == np.bool_


def test_names_stand_for_numbers_that_json_does_not_have():
    array = one([["NaN", "-Infinity"], [1, "Infinity"]], X)
    assert np.isnan(array[0, 0])
    assert array[0, 1] == -np.inf
    assert array[1].tolist() == [1, np.inf]
    result = write_body(JSON, [{"y": np.array([np.nan, 1, np.inf, -np.inf])}], listed=False)
    assert json.loads(result) == {"outputs": {"y": ["NaN", 1.0, "Infinity", "-Infinity"]}}


def test_an_empty_list_has_the_sizes_that_the_input_says():
    assert one([], X).shape == (0, 2)
    assert one([], TOKENS).shape == (0,)


@pytest.mark.parametrize(
    ("value", "spec", "message"),
    [
        ([[1, 2], [3]], X, "equally long"),
        ([[1, "a"]], X, "'a' is no number"),
        ([[1, None]], X, "no nested lists of numbers"),
        ({"a": 1}, X, "no nested lists of numbers"),
        ([1.5], TOKENS, "tokens: i64"),
        ([True], TOKENS, "tokens: i64"),
        ([2**70], TOKENS, "tokens: i64"),
        ([300], ProgramInput("x", TensorType((1,), int8)), "outside -128 to 127"),
        ([1], ProgramInput("flag", TensorType((1,), bool_)), "flag: bool"),
    ],
)
def test_values_that_are_not_the_inputs_are_refused_with_what_was_expected(value, spec, message):
    with pytest.raises(BadRequest, match=message) as caught:
        one(value, spec)
    assert caught.value.status == 422


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "one key"),
        (b"{}", "one key"),
        ({"inputs": {}, "instances": []}, "one key"),
        ({"instances": []}, "list of 1 to 100"),
        ({"instances": [{}] * 101}, "list of 1 to 100"),
        ({"inputs": [1]}, "inputs by name"),
        ({"inputs": {}}, "'tokens' is missing; expected tokens: i64"),
        ({"inputs": {"tokens": [1], "more": 1}}, "no input 'more'"),
    ],
)
def test_bodies_that_are_no_requests_are_refused_with_what_to_send(body, message):
    with pytest.raises(BadRequest, match=message) as caught:
        read(body, TOKENS)
    assert caught.value.status in (400, 422)


def test_a_bad_sample_of_a_list_is_its_own_refusal():
    samples = read({"instances": [{"tokens": [1]}, {"tokens": "a"}, 3, {"tokens": []}]}, TOKENS)
    assert samples.listed
    assert [isinstance(s, BadRequest) for s in samples.of] == [False, True, True, False]
    body = write_body(JSON, [{"y": np.ones(1)}, samples.of[1]], listed=True)
    first, second = json.loads(body)["predictions"]
    assert first == {"outputs": {"y": [1.0]}}
    assert second["error"]["status"] == 422


# ---- npz


def test_archives_are_read_and_written():
    x = np.arange(6, dtype=np.float64).reshape(3, 2)
    for given in (x, np.asfortranarray(x), x.astype(">f4"), x.astype(np.int32)):
        (sample,) = read(npz(x=given), X, media=NPZ).of
        assert sample["x"].dtype == np.float32
        assert np.array_equal(sample["x"], x)
        assert sample["x"].flags.c_contiguous
    made = np.load(io.BytesIO(write_body(NPZ, [{"y": x, "n": np.array(3)}], listed=False)))
    assert np.array_equal(made["y"], x)
    assert made["n"] == 3


def test_archives_of_objects_are_refused():
    with pytest.raises(BadRequest, match="expected numbers"):
        read(npz(x=np.array([{}], dtype=object)), X, media=NPZ)
    with pytest.raises(BadRequest, match="expected numbers"):
        read(npz(x=np.array(["a"])), X, media=NPZ)


def test_a_header_that_promises_more_than_there_is_makes_no_array():
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(BadRequest, match="has 0 bytes"):
        read(file.getvalue(), X, media=NPZ)


def test_an_archive_that_unpacks_to_much_more_is_not_unpacked():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(10_000_000))
    assert len(file.getvalue()) < 20_000
    with pytest.raises(BadRequest, match="unpacks to more") as caught:
        read(file.getvalue(), X, media=NPZ)
    assert caught.value.status == 413


def test_mutated_archives_are_read_or_refused():
    rng = np.random.default_rng(0)
    body = bytearray(npz(x=np.ones((3, 2), np.float32)))
    statuses = set()
    for _ in range(500):
        bad = bytearray(body)
        for place in rng.integers(0, len(bad), 3):
            bad[place] = rng.integers(256)
        try:
            read(bytes(bad[: rng.integers(1, len(bad) + 1)]), X, media=NPZ)
        except BadRequest as refused:
            statuses.add(refused.status)
    assert statuses <= {400, 413, 422}


def test_an_archive_holds_one_sample():
    with pytest.raises(BadRequest, match="one sample") as caught:
        write_body(NPZ, [{"y": np.ones(1)}, {"y": np.ones(1)}], listed=True)
    assert caught.value.status == 406
