"""torch.onnx.export writes what program.to_onnx does; what libraries declare beside it nobody calls."""

from __future__ import annotations

import inspect
import io
import subprocess
import sys

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.compat.torch_namespace import onnx_symbols

# The parameters of PyTorch 2.13, in order.
PARAMETERS = (
    "model args f kwargs verbose input_names output_names opset_version dynamo external_data dynamic_shapes "
    "custom_translation_table report optimize verify profile dump_exported_program artifacts_dir export_params "
    "keep_initializers_as_inputs dynamic_axes training operator_export_type do_constant_folding custom_opsets "
    "export_modules_as_functions autograd_inlining"
)


def session(made):
    onnxruntime = pytest.importorskip("onnxruntime")
    return onnxruntime.InferenceSession(made.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])


def test_a_symbolic_function_is_handed_back():
    assert onnx_symbols.parse_args("v", "f")(len) is len
    assert onnx_symbols.register_custom_op_symbolic("torchvision::nms", len, 11) is None


def test_no_export_is_on_its_way():
    assert onnx_symbols.is_in_onnx_export() is False


def test_export_has_the_signature_of_pytorchs():
    assert " ".join(inspect.signature(onnx_symbols.export).parameters) == PARAMETERS


def test_names_and_open_sizes_are_the_users():
    pytest.importorskip("onnx")
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    file = io.BytesIO()
    made = onnx_symbols.export(
        model,
        (ex.randn(4, 3),),
        file,
        input_names=["pixels"],
        output_names=["scores"],
        dynamic_axes={"pixels": {0: "batch"}, "scores": {0: "batch"}},
        verify=True,
    )
    assert model.training  # as it was; the export is in evaluation mode
    assert file.getvalue() == made.model_proto.SerializeToString()
    run = session(made)
    x = np.ones((7, 3), np.float32)
    np.testing.assert_allclose(
        run.run(["scores"], {"pixels": x})[0], model[0](ex.tensor(x)).detach().numpy(), rtol=1e-5
    )


def test_open_sizes_may_be_listed_without_names_and_arguments_named_in_a_dict():
    pytest.importorskip("onnx")
    made = onnx_symbols.export(
        lambda x, y: x * y.sum(), (ex.ones(3), {"y": ex.ones(3)}), dynamic_axes={"x": [0], "y": [0]}, dynamo=False
    )
    assert session(made).run(None, {"x": np.ones(5, np.float32), "y": np.full(5, 2, np.float32)})[0].sum() == 50


@pytest.mark.parametrize("opset_version", [9, 16, 22])
def test_other_opsets_are_errors(opset_version):
    pytest.importorskip("onnx")
    with pytest.raises(ex.errors.ExportError, match="from 17 to 21"):
        onnx_symbols.export(lambda x: x + 1, ex.ones(2), opset_version=opset_version)


def test_options_that_would_change_the_model_are_refused_by_name():
    for options in (
        {"export_params": False},
        {"keep_initializers_as_inputs": True},
        {"custom_translation_table": {1: 2}},
    ):
        with pytest.raises(ex.errors.UnsupportedError, match=r"torch\.onnx\.export"):
            onnx_symbols.export(lambda x: x + 1, ex.ones(2), **options)
    with pytest.raises(ex.errors.ArgumentError, match="input_names"):
        onnx_symbols.export(lambda x: x + 1, ex.ones(2), input_names=["a", "b"])


def test_a_script_of_pytorchs_exports(tmp_path):
    pytest.importorskip("onnx")
    script = tmp_path / "program.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(3, 2).eval()\n"
        "torch.onnx.export(model, (torch.ones(4, 3),), 'm.onnx', dynamic_shapes=({0: 'batch'},), opset_version=18)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "extempo", "run", str(script)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "m.onnx").stat().st_size > 100
