"""Ragged inputs and outputs in the padded form: the results of the program, whatever stands in the filling."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ExportError

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")


class Reader(nn.Module):
    """Scores of sequences, and something for each of their tokens."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, tokens):
        states = self.table(tokens)
        return self.head((states * states.softmax(1)).sum(1)), states * 2


@pytest.fixture(scope="module")
def program():
    ex.manual_seed(0)
    return ex.program(Reader().eval(), ex.ragged([[1, 2, 3], [4]]))


def session_of(program, tmp_path, **options):
    path = tmp_path / "model.onnx"
    program.to_onnx(path, **options)
    onnx.checker.check_model(str(path), full_check=True)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("opset_version", [18, 21])
def test_padded_rows_give_what_the_program_gives(program, tmp_path, opset_version):
    session = session_of(program, tmp_path, opset_version=opset_version, ragged="padded")
    assert [spec.name for spec in session.get_inputs()] == ["tokens", "tokens.lengths"]
    assert [spec.name for spec in session.get_outputs()] == ["output.0", "output.1", "output.1.lengths"]
    rng = np.random.default_rng(0)
    for i in range(100):
        lengths = rng.integers(0, 6, 1 + i % 4)
        padded = rng.integers(0, 10, (len(lengths), lengths.max() + i % 3))  # the filling is any token
        scores, states, n = session.run(None, {"tokens": padded, "tokens.lengths": lengths})
        rows = [ex.tensor(row[:length]) for row, length in zip(padded, lengths, strict=True)]
        of_program = program(ex.ragged(rows))
        np.testing.assert_allclose(scores, of_program[0].numpy(), atol=1e-5)
        assert n.tolist() == lengths.tolist()
        assert states.shape == (len(lengths), lengths.max(), 4)
        for row, length, of_row in zip(states, lengths, of_program[1], strict=True):
            np.testing.assert_allclose(row[:length], of_row.numpy(), atol=1e-6)
            assert (row[length:] == 0).all()


def test_no_rows_at_all(program, tmp_path):
    session = session_of(program, tmp_path, ragged="padded")
    feed = {"tokens": np.zeros((0, 5), np.int64), "tokens.lengths": np.zeros(0, np.int64)}
    assert [a.shape for a in session.run(None, feed)] == [(0, 3), (0, 0, 4), (0,)]


def test_lengths_beyond_the_padding_are_brought_into_range(program, tmp_path):
    session = session_of(program, tmp_path, ragged="padded")
    tokens = np.array([[1, 2, 3], [4, 5, 6]])
    wrong = session.run(None, {"tokens": tokens, "tokens.lengths": np.array([9, -2])})
    right = session.run(None, {"tokens": tokens, "tokens.lengths": np.array([3, 0])})
    for a, b in zip(wrong, right, strict=True):
        np.testing.assert_array_equal(a, b)


def test_other_words_and_other_dimensions_are_refused(program, tmp_path):
    with pytest.raises(ExportError, match="ragged must be one of 'offsets', 'padded', got 'nested'"):
        program.to_onnx(tmp_path / "m.onnx", ragged="nested")
    second = ex.program(lambda x: x * 2, ex.ragged([[1.0, 2.0], [3.0]]).unsqueeze(1))
    with pytest.raises(ExportError, match="x is ragged in dimension 2, and ragged='padded' is for dimension 1"):
        second.to_onnx(tmp_path / "m.onnx", ragged="padded")
    assert not (tmp_path / "m.onnx").exists()
