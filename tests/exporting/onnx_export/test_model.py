"""The whole model: what is written, what is refused, and what stays out of it."""

from __future__ import annotations

import builtins
import io
import sys

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.exporting.onnx_export import model as whole

from .agreement import Exported, onnx, onnxruntime


def test_a_model_is_written_to_a_path_and_names_what_the_program_names(tmp_path):
    program = ex.program(nn.Linear(3, 2).eval(), ex.randn(4, 3), dynamic={"input": {0: "batch"}})
    program.to_onnx(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    assert [i.name for i in model.graph.input] == ["input"]
    assert [o.name for o in model.graph.output] == ["output"]
    assert {i.name for i in model.graph.initializer} == {"weight", "bias"}
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert (model.ir_version, model.opset_import[0].version, model.producer_name) == (10, 21, "extempo")


@pytest.mark.parametrize("opset_version", [16, 22, "21"])
def test_other_opsets_are_refused(opset_version):
    with pytest.raises(ex.errors.ExportError, match="from 17 to 21"):
        ex.program(lambda x: x + 1, ex.ones(2)).to_onnx(io.BytesIO(), opset_version=opset_version)


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "onnx":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ex.errors.ExportError, match=r"pip install \"extempo\[onnx\]\""):
        ex.program(lambda x: x + 1, ex.ones(2)).to_onnx(io.BytesIO())


def test_extempo_does_without_the_package_until_a_model_is_written():
    import subprocess

    code = "import sys, extempo as ex; ex.program(lambda x: x + 1, ex.ones(2)); print('onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_states_are_inputs_and_outputs():
    norm = nn.BatchNorm1d(3)
    program = ex.program(norm, ex.randn(4, 3), training=True, dynamic={"input": {0: "n"}})
    file = io.BytesIO()
    program.to_onnx(file)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    state = {name: program.weights[name].numpy() for name in program.state}
    assert {i.name for i in session.get_inputs()} == {"input", *state}
    made = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"input": x, **state}), strict=True))
    _, new = program(ex.tensor(x))
    for name, value in new.items():
        np.testing.assert_allclose(made[f"{name}.new"], value.numpy(), rtol=1e-5)


def test_conditions_on_sizes_stand_in_the_metadata():
    def choose(x):
        return x * 2 if x.shape[0] > 2 else x

    exported = Exported(ex.program(choose, ex.ones(5), dynamic={"x": {0: "n"}}, check=False))
    assert {p.key: p.value for p in exported.model.metadata_props} == {"sizes": "n > 2"}


def test_what_nobody_reads_is_left_out():
    exported = Exported(ex.program(nn.LSTM(3, 4).eval(), ex.randn(5, 2, 3)))  # its lengths are known
    read = {name for node in exported.model.graph.node for name in whole._names_read(node)}
    read |= {o.name for o in exported.model.graph.output}
    assert all(not read.isdisjoint(node.output) for node in exported.model.graph.node)
    assert {i.name for i in exported.model.graph.initializer} <= read


def test_weights_beyond_what_one_file_holds_go_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(whole, "_IN_ONE_FILE", 1000)
    model = nn.Linear(64, 64).eval()
    ex.program(model, ex.randn(2, 64)).to_onnx(tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").stat().st_size > 64 * 64 * 4 - 1
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    x = ex.ones(2, 64)
    np.testing.assert_allclose(
        session.run(None, {"input": x.numpy()})[0], model(x).detach().numpy(), rtol=1e-4, atol=1e-6
    )


class WithBuffers(nn.Module):
    """A weight, a buffer, and constants of the code."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)
        self.register_buffer("shift", ex.tensor([0.5, -0.5]))

    def forward(self, x):
        return self.inner(x) + self.shift + ex.tensor([1.0, 2.0]) * 3.0


def test_constants_and_buffers_come_back_as_what_they_were(tmp_path):
    model = WithBuffers().eval()
    program = ex.program(model, ex.randn(2, 3), dynamic={"x": {0: "n"}})
    program.to_onnx(str(tmp_path / "m.onnx"))
    held = onnx.load(str(tmp_path / "m.onnx"))
    assert {i.name for i in held.graph.initializer} == {"inner.weight", "inner.bias", "shift"}
    again = ex.from_onnx(str(tmp_path / "m.onnx"))
    assert {name for name, _ in again.named_parameters()} == {"inner.weight", "inner.bias"}
    assert "shift" in dict(again.named_buffers())
    x = ex.randn(5, 3)
    assert ex.allclose(again(x), model(x), atol=1e-6)


def test_a_condition_of_values_is_said_in_the_file_that_cannot_check_it():
    def fn(x):
        assert x.sum() > 0, "the sum must be positive"
        return x * 2

    made = whole.onnx_model(ex.program(fn, ex.ones(3)), 21)
    assert "the sum must be positive" in {p.key: p.value for p in made.metadata_props}["conditions"]
