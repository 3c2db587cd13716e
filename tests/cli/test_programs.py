"""`extempo show` and `extempo predict`: saved programs, printed and run on arrays in files."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import extempo as ex

from .commands import run


@pytest.fixture
def saved(tmp_path):
    """A program of two inputs and two outputs in a file."""

    def fn(x, scale):
        return {"scaled": x * scale, "sum": x.sum(1)}

    path = tmp_path / "m.extempo"
    ex.program(fn, (ex.ones(2, 3), ex.ones(())), dynamic={"x": {0: "n"}}).save(path)
    return path


def test_show_prints_the_program(saved):
    result = run("show", str(saved))
    assert result.exit_code == 0
    assert "input %0 x: f32[n, 3]" in result.output
    assert "mul(%0, %1) : f32[n, 3]  # test_programs.py:" in result.output


def test_show_prints_facts_as_json(saved):
    facts = json.loads(run("show", str(saved), "--json").output)
    assert facts["inputs"] == {"x": "f32[n, 3]", "scale": "f32[]"}
    assert facts["outputs"] == {"output.scaled": "f32[n, 3]", "output.sum": "f32[n]"}
    assert facts["sizes"] == {"n": [0, None]}


def test_show_draws_the_program_with_the_names_of_its_inputs(saved, tmp_path):
    picture = tmp_path / "m.svg"
    result = run("show", str(saved), "--draw", str(picture))
    assert result.exit_code == 0, result.output
    assert ">scale<" in picture.read_text()
    assert ">mul<" in picture.read_text()
    wrong = run("show", str(saved), "--draw", str(tmp_path / "m.jpg"))
    assert wrong.exit_code == 1
    assert "ends in one of .svg, .png" in wrong.output


def test_predict_reads_and_writes_arrays(saved, tmp_path):
    x, scale, y = (str(tmp_path / f"{name}.npy") for name in ("x", "scale", "y"))
    np.save(x, np.ones((4, 3), np.float32))
    np.save(scale, np.float64(2.0))
    arguments = ("predict", str(saved), "--input", f"x={x}", "--input", f"scale={scale}")
    result = run(*arguments, "--output", y)
    assert result.output == "output.sum = tensor([3., 3., 3., 3.])\n"
    assert np.load(y).tolist() == [[2.0] * 3] * 4
    result = run(*arguments, "--output", f"output.sum={y}")
    assert np.load(y).tolist() == [3.0] * 4
    assert "output.scaled = tensor([[2.," in result.output


def test_mistakes_are_told_in_words(saved, tmp_path):
    x, words, wrong = (str(tmp_path / name) for name in ("x.npy", "words.npy", "wrong.npy"))
    np.save(x, np.ones((4, 3), np.float32))
    np.save(words, np.array(["a"]))
    np.save(wrong, np.ones((4, 5), np.float32))
    (tmp_path / "text.npy").write_text("no")
    for arguments, message in [
        (["--input", f"x={x}"], "the program needs the input scale: --input scale=FILE.npy"),
        (["--input", f"z={x}"], "the inputs are x: f32[n, 3], scale: f32[]"),
        (["--input", f"x={tmp_path / 'text.npy'}"], "is no file of numpy.save"),
        (["--input", f"x={words}", "--input", f"scale={x}"], "the program takes f32[n, 3], and the file has <U1"),
        (["--input", f"x={wrong}", "--input", f"scale={x}"], "dimension 1 must be 3"),
    ]:
        result = run("predict", str(saved), *arguments)
        assert result.exit_code == 1
        assert message in result.output
    np.save(x, np.float32(1))
    result = run("show", x)
    assert result.exit_code == 1
    assert "no file of program.save" in result.output


def test_quantize_writes_a_smaller_program_and_reports(tmp_path):
    large, small, x = (str(tmp_path / name) for name in ("m.extempo", "s.extempo", "x.npy"))
    model = ex.nn.Linear(64, 64).eval()
    ex.program(model, ex.randn(2, 64), dynamic={"input": {0: "n"}}).save(large)
    np.save(x, np.ones((3, 64), np.float32))
    result = run("quantize", large, small, "--dynamic", "--input", f"input={x}")
    assert result.exit_code == 0, result.output
    assert "int8: 1 of 2 weights, inputs of 1 linear layer rounded too" in result.output
    assert "ms a call" in result.output
    assert os.path.getsize(small) < os.path.getsize(large) / 2
    assert ex.allclose(ex.load_program(small)(ex.ones(3, 64)), model(ex.ones(3, 64)), atol=0.05)
    assert run("quantize", large, small, "--kind", "float16").exit_code == 0
    wrong = run("quantize", large, small, "--input", f"y={x}")
    assert wrong.exit_code == 1
    assert "the inputs are input: f32[n, 64]" in wrong.output
