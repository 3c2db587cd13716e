"""Files that nobody vouches for: damaged, cut short, with impossible tensors, or pointing outside their directory."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import extempo as ex
from extempo.exporting.onnx_import.reading import DTYPES, NUMBERS, array_of, element_type
from extempo.serialization.files import FileFormatError

onnx = pytest.importorskip("onnx", reason="ONNX files are read by the extra: pip install -e '.[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


@pytest.mark.parametrize(
    "name", ["FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "INT64", "INT32", "INT16", "INT8", "UINT8", "BOOL"]
)
def test_values_are_read_from_bytes_and_from_lists(name):
    number = getattr(TensorProto, name)
    values = np.array([[0, 1], [3, 2]]).astype(DTYPES[number].numpy)
    raw = TensorProto(data_type=number, dims=[2, 2], raw_data=values.tobytes())
    listed = helper.make_tensor("t", number, [2, 2], values.astype(np.float64).reshape(-1).tolist())
    for tensor in (raw, listed):
        found = array_of(tensor, None)
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)
        assert found.flags.writeable
    assert NUMBERS[element_type(number)] == number


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ({"dims": [2], "raw_data": b"1234"}, r"'t' has shape \[2\] of extempo.float32, but the file holds 4 bytes"),
        ({"dims": [2**40, 2**20], "raw_data": b"1234"}, "damaged or cut short"),
        ({"dims": [2**62, 2**62, 2**62]}, "holds 0 numbers"),
        ({"dims": [-1], "raw_data": b""}, r"the impossible shape \[-1\]"),
        ({"dims": [1] * 100, "raw_data": b"1234"}, "impossible shape"),
        ({"dims": [3], "float_data": [1.0]}, "holds 1 numbers"),
        ({"dims": [1], "data_type": 8, "string_data": [b"a"]}, "element type STRING"),
        ({"dims": [1], "data_type": 17, "raw_data": b"a"}, "element type FLOAT8E4M3FN"),
        ({"dims": [1], "data_type": 99, "raw_data": b"a"}, "element type number 99"),
    ],
)
def test_an_impossible_tensor_is_an_error_that_names_it(tensor, message):
    with pytest.raises(ex.errors.ExtempoError, match=message):
        array_of(TensorProto(**{"name": "t", "data_type": 1, **tensor}), None)


@pytest.fixture
def external(model_of, tmp_path):
    """A model whose weight stands in a file beside it: (where it says, offset, length) -> the path of the model."""

    def make(location, offset="0", length="8", data=b"\0\0\x80\x3f\0\0\0\x40"):
        directory = tmp_path / "model"
        directory.mkdir(exist_ok=True)
        (directory / "weights.bin").write_bytes(data)
        (tmp_path / "outside.bin").write_bytes(data)
        model = model_of(
            [helper.make_node("Add", ["x", "w"], ["y"])], {"x": [2]}, ["y"], {"w": np.zeros(2, np.float32)},
            as_bytes=False,
        )  # fmt: skip
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=value)
        path = directory / "m.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return make


def test_external_data_is_read_from_beside_the_model(external):
    path = external("weights.bin")
    assert ex.from_onnx(path)(ex.zeros(2)).tolist() == [1.0, 2.0]
    with pytest.raises(FileFormatError, match="give the path of the model, not its bytes"):
        ex.from_onnx(path.read_bytes())


@pytest.mark.parametrize(
    ("location", "options", "message"),
    [
        ("../outside.bin", {}, "not inside the directory of the model"),
        ("a/../../outside.bin", {}, "not inside the directory"),
        ("/etc/passwd", {}, "not inside the directory"),
        ("", {}, "not inside the directory"),
        ("weights.bin\0", {}, "not inside the directory"),
        ("link.bin", {}, "not inside the directory"),
        ("nothing.bin", {}, "'nothing.bin', which is not there"),
        (".", {}, "which is not there"),
        ("weights.bin", {"offset": "4"}, "does not hold the 8 bytes of 'w' from 4 on"),
        ("weights.bin", {"offset": "-4"}, "does not hold"),
        ("weights.bin", {"length": "999999999999"}, "does not hold"),
        ("weights.bin", {"offset": "many"}, "is no number"),
    ],
)
def test_external_data_stays_inside_the_directory_and_the_file(external, tmp_path, location, options, message):
    path = external(location, **options)
    os.symlink(tmp_path / "outside.bin", path.parent / "link.bin")
    with pytest.raises(FileFormatError, match=message):
        ex.from_onnx(path)


@pytest.mark.parametrize("data", [b"", b"\0", b"not an ONNX file", b"\xff" * 100])
def test_what_is_no_model_is_an_error(data):
    with pytest.raises(FileFormatError, match="from_onnx: the file"):
        ex.from_onnx(data)


def test_a_file_of_another_kind_is_named(tmp_path):
    with pytest.raises(FileFormatError, match="expected a path, a binary file or bytes, got int"):
        ex.from_onnx(7)
    (tmp_path / "m.onnx").write_text("text")
    with (tmp_path / "m.onnx").open() as file, pytest.raises(FileFormatError, match="binary mode"):
        ex.from_onnx(file)
    with pytest.raises(FileFormatError, match=r"m\.onnx"):
        ex.from_onnx(tmp_path / "m.onnx")
    with pytest.raises(FileNotFoundError):
        ex.from_onnx(tmp_path / "none.onnx")


def test_a_missing_package_is_an_error_that_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ex.errors.UnsupportedError, match=r"pip install 'extempo\[onnx\]'"):
        ex.from_onnx(b"")


def test_mutated_and_truncated_files_give_results_or_errors_of_ours(model_of, normal):
    """Every kind of value that a file holds: shapes, attributes, bodies, sizes, weights."""
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Identity", ["c"], ["d"])], "body",
        [helper.make_tensor_value_info(n, k, []) for n, k in (("i", 7), ("c", 9), ("s", 1))],
        [helper.make_tensor_value_info(n, k, []) for n, k in (("d", 9), ("t", 1))],
    )  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1], strides=[2]),
        helper.make_node("Reshape", ["c", "shape"], ["r"]),
        helper.make_node("Slice", ["r", "start", "end"], ["s"]),
        helper.make_node("Pad", ["s", "pads"], ["p"]),
        helper.make_node("ReduceSum", ["p"], ["t"], keepdims=0),
        helper.make_node("Loop", ["n", "", "t"], ["l"], body=body),
    ]
    weights = {
        "w": normal(3, 2, 3), "shape": np.array([-1, 3]), "start": np.array([0]), "end": np.array([4]),
        "pads": np.array([1, 0, 0, 1]), "n": np.array(3),
    }  # fmt: skip
    data = model_of(nodes, {"x": ["b", 2, 6]}, ["l"], weights)
    drawn = random.Random(0)
    outcomes = set()
    for _ in range(400):
        changed = bytearray(data)
        if drawn.random() < 0.3:
            del changed[drawn.randrange(len(changed)) :]
        for _ in range(drawn.randrange(3)):
            changed[drawn.randrange(len(changed) or 1) : 1] = bytes([drawn.randrange(256)])
        for _ in range(drawn.randrange(1, 4)):
            if changed:
                changed[drawn.randrange(len(changed))] = drawn.choice((0, 1, 3, 128, 255))
        try:
            module = ex.from_onnx(bytes(changed))
            if module.input_names == ["x"] and weights["n"].tobytes() in changed:  # a loop of another length has no end
                module(ex.ones(2, 2, 6))
                outcomes.add("ran")
        except ex.errors.ExtempoError as error:
            outcomes.add(type(error).__name__)
    assert outcomes >= {"ran", "FileFormatError", "UnsupportedError"}


def test_a_tensor_is_not_kept_by_the_file(model_of):
    tensor = numpy_helper.from_array(np.ones(2, np.float32))
    found = array_of(tensor, None)
    found += 1
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), 1)
