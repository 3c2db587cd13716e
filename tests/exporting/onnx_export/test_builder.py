"""The builder: constants, sizes as values, numbers among inputs, and products that onnxruntime survives."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest

import extempo as ex
from extempo.core.types import TensorType, float32, float64, int64
from extempo.exporting.onnx_export.builder import Builder, NoForm
from extempo.exporting.sizes import SizeExpr, parse_size

from .agreement import Exported, normal, onnx, onnxruntime


@pytest.fixture
def b():
    builder = Builder(onnx, 21, ["x"])
    builder.add_input("x", TensorType((SizeExpr.of("n"), 3), float32))
    return builder


def kinds(block):
    return [node.op_type for node in block.nodes]


def test_a_constant_is_there_once(b):
    assert b.constant(2, int64) is b.constant(2, int64)
    assert b.constant(2, float32) is not b.constant(2, float64)
    assert len(b.constants.nodes) == 3


def test_numbers_take_the_dtype_of_the_other_input(b):
    x = b.main.inputs[0]
    made = b.Mul(x, 2)
    assert made.dtype is float32
    assert b.Equal(x, 1.0).dtype is ex.bool
    assert b.Where(b.Equal(x, 1.0), 0, x).dtype is float32


def test_a_size_is_computed_once_and_before_everything_else(b):
    size = parse_size("2 * n + 1")
    assert b.ints([size]) is b.ints([size])
    assert b.ints([2, parse_size("3")]).array.tolist() == [2, 3]
    assert kinds(b.main) == []
    assert kinds(b.head) == ["Shape", "Mul", "Add"]
    assert b.product([2, 3]) == 6
    assert str(b.plus(size, -1)) == "2 * n"


def test_names_are_taken_once(b):
    assert len({b.name("x") for _ in range(5)} | {"x"}) == 6


def test_what_has_no_form_is_said_with_the_reason(b):
    with pytest.raises(NoForm, match="opset_version=18"):
        Builder(onnx, 17).require(18, "BitwiseAnd")
    with pytest.raises(AttributeError):
        b.nonsense  # noqa: B018 - reading it is the test


@pytest.mark.parametrize(
    "text", ["n // 2", "n % 3", "(n + 5) // (n - 2)", "max(0, n - 4)", "n * n", "n // (n - n // 1)"]
)
def test_sizes_are_the_same_numbers_in_the_model(text):
    size = parse_size(text)

    def fill(x):
        n = x.shape[0]
        known = {"n // 2": n // 2, "n % 3": n % 3, "(n + 5) // (n - 2)": (n + 5) // (n - 2), "n * n": n * n}
        return ex.zeros(3) + (known[text] if text in known else x[4:].shape[0] if "max" in text else 0)

    exported = Exported(ex.program(fill, ex.ones(7), dynamic={"x": {0: "n"}}, check=False))
    for n in (0, 1, 3, 4, 9):
        wanted = 0 if text.startswith("n // (") else size.evaluate({"n": n})
        assert exported.run(ex.ones(n))[0].tolist() == [wanted] * 3


def test_a_product_of_transposed_batches_with_no_rows_does_not_end_the_process():
    def attend(x):
        q = x.unflatten(-1, (2, 4)).transpose(1, 2)
        return q @ q.mT

    exported = Exported(ex.program(attend, ex.randn(2, 5, 8), dynamic={"x": {1: "time"}}))
    for time in (0, 1, 6):
        exported.agree(normal(np.random.default_rng(0), 2, time, 8))


def test_windows_that_reach_beyond_the_padding_need_a_fixed_size():
    pool = ex.nn.MaxPool1d(3, 2, ceil_mode=True).eval()
    program = ex.program(pool, ex.randn(1, 2, 8), dynamic={"input": {2: "time"}}, check=False)
    with pytest.raises(ex.errors.ExportError, match="ceil_mode"):
        Exported(program)


SIZES = {
    "sqrt": lambda x: x * math.sqrt(x.shape[0]),
    "logarithms": lambda x: x * (math.log(len(x) + 1) + math.log2(len(x) + 1) + math.log10(len(x) + 2)),
    "exp and log1p": lambda x: x * (math.log1p(x.shape[0]) + math.exp(x.shape[0] / 10)),
    "ceil": lambda x: x[: math.ceil(x.shape[0] / 2)],
    "floor": lambda x: x[: math.floor(x.shape[0] / 3)],
    "int": lambda x: x[: int(x.shape[0] * 0.7)],
    "round": lambda x: x[: round(x.shape[0] / 3)],
    "right shift": lambda x: x[: x.shape[0] >> 1],
    "left shift": lambda x: ex.zeros(x.shape[0] << 1) + x.sum(),
    "and": lambda x: x[: x.shape[0] & 6],
    "or": lambda x: ex.zeros(x.shape[0] | 3) + x.sum(),
}


@pytest.mark.parametrize("name", SIZES)
def test_functions_of_sizes_are_those_of_python(name):
    file = io.BytesIO()
    ex.program(SIZES[name], ex.arange(7.0), dynamic={"x": {0: "n"}}).to_onnx(file)
    session = onnxruntime.InferenceSession(file.getvalue())
    for n in (0, 1, 2, 3, 5, 8, 13, 16, 31):
        x = np.arange(n, dtype=np.float32)
        expected = SIZES[name](ex.tensor(x)).numpy()
        found = session.run(None, {"x": x})[0]
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, 1e-5)
