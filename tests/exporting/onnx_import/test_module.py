"""ex.from_onnx: modules that run, train with PyTorch's losses, keep names, and say what is wrong with an input."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

import extempo as ex

onnx = pytest.importorskip("onnx", reason="ONNX files are read by the extra: pip install -e '.[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


@pytest.fixture
def mlp(model_of, normal):
    nodes = [
        helper.make_node("Gemm", ["x", "0.weight", "0.bias"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["a"]),
        helper.make_node("Gemm", ["a", "2.weight", "2.bias"], ["y"], transB=1),
    ]
    weights = {"0.weight": normal(8, 4), "0.bias": normal(8), "2.weight": normal(3, 8), "2.bias": normal(3)}
    return model_of(nodes, {"x": ["batch", 4]}, ["y"], weights), weights


def test_floats_are_parameters_under_the_names_of_the_file(mlp):
    data, weights = mlp
    module = ex.from_onnx(data)
    assert list(dict(module.named_parameters())) == list(weights)
    assert module.input_names == ["x"]
    assert module.output_names == ["y"]
    np.testing.assert_array_equal(module.state_dict()["0.bias"].numpy(), weights["0.bias"])
    assert repr(module).startswith("OnnxModule(\n  x: f32[batch, 4] -> y")


def test_a_module_is_read_from_a_path_a_file_and_bytes(mlp, tmp_path, normal):
    data, _ = mlp
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    x = ex.from_numpy(normal(5, 4))
    results = [ex.from_onnx(f)(x) for f in (str(path), path, io.BytesIO(data), data)]
    assert all(ex.equal(results[0], r) for r in results)


def test_an_mlp_trains_with_the_losses_of_pytorch(mlp, normal):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    data, weights = mlp
    module = ex.from_onnx(data)
    other = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    other.load_state_dict({name: torch.from_numpy(w.copy()) for name, w in weights.items()})
    x, target = normal(16, 4), np.arange(16) % 3
    ours = losses(module, ex.optim.Adam(module.parameters(), lr=0.01), ex.from_numpy(x), ex.from_numpy(target), ex)
    theirs = losses(
        other, torch.optim.Adam(other.parameters(), lr=0.01), torch.from_numpy(x), torch.from_numpy(target), torch
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert ours[-1] < ours[0]


def losses(model, optimizer, x, target, library):
    found = []
    for _ in range(20):
        loss = library.nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_an_lstm_that_pytorch_exported_trains_with_the_losses_of_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    torch.manual_seed(0)

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(11, 6)
            self.lstm = torch.nn.LSTM(6, 5, batch_first=True, bidirectional=True)
            self.head = torch.nn.Linear(10, 3)

        def forward(self, tokens):
            return self.head(self.lstm(self.embedding(tokens))[0].mean(1))

    other = Classifier()
    tokens = torch.randint(0, 11, (4, 7))
    file = io.BytesIO()
    with pytest.warns():  # of the exporter's age, and of batches that an LSTM with a batch of 1 would not have
        torch.onnx.export(
            other.eval(), (tokens,), file, dynamo=False, input_names=["tokens"], opset_version=17,
            dynamic_axes={"tokens": {0: "batch", 1: "time"}},
        )  # fmt: skip
    module = ex.from_onnx(file.getvalue())
    for size in ((4, 7), (2, 3), (1, 1)):
        x = torch.randint(0, 11, size)
        np.testing.assert_allclose(
            module(ex.from_numpy(x.numpy())).detach().numpy(), other(x).detach().numpy(), atol=1e-5
        )
    target = np.array([0, 2, 1, 0])
    ours = losses(
        module, ex.optim.SGD(module.parameters(), lr=0.1), ex.from_numpy(tokens.numpy()), ex.from_numpy(target), ex
    )
    theirs = losses(other, torch.optim.SGD(other.parameters(), lr=0.1), tokens, torch.from_numpy(target), torch)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert ours[-1] < ours[0]


def test_two_biases_of_the_file_train_as_the_two_of_pytorch(model_of, normal):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    lstm = torch.nn.LSTM(3, 4)
    order = [0, 3, 1, 2]  # gates of the format are i, o, f, c; PyTorch's are i, f, c, o

    def gates(t):
        return torch.cat([t.chunk(4)[i] for i in order]).detach().numpy()[None]

    weights = {
        "w": gates(lstm.weight_ih_l0),
        "r": gates(lstm.weight_hh_l0),
        "b": np.concatenate([gates(lstm.bias_ih_l0), gates(lstm.bias_hh_l0)], 1),
    }
    node = helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=4)
    module = ex.from_onnx(model_of([node], {"x": ["time", "batch", 3]}, ["y"], weights))
    x = normal(5, 2, 3)
    ours, theirs = [], []
    optimizer, other = ex.optim.SGD(module.parameters(), lr=0.1), torch.optim.SGD(lstm.parameters(), lr=0.1)
    for _ in range(10):
        for found, step, y in (
            (ours, optimizer, lambda: module(ex.from_numpy(x))),
            (theirs, other, lambda: lstm(torch.from_numpy(x))[0]),
        ):
            loss = ((y() - 0.5) ** 2).sum()
            step.zero_grad()
            loss.backward()
            step.step()
            found.append(loss.item())
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_statistics_bounds_and_sizes_are_not_trained(model_of, normal):
    nodes = [
        helper.make_node("BatchNormalization", ["x", "scale", "bias", "mean", "var"], ["n"]),
        helper.make_node("Clip", ["n", "low"], ["c"]),
        helper.make_node("Reshape", ["c", "shape"], ["y"]),
    ]
    weights = {name: np.abs(normal(2)) for name in ("scale", "bias", "mean", "var")}
    weights |= {"low": np.float32(-1), "shape": np.array([-1, 6])}
    module = ex.from_onnx(model_of(nodes, {"x": ["n", 2, 3]}, ["y"], weights))
    assert set(dict(module.named_parameters())) == {"scale", "bias"}
    assert set(dict(module.named_buffers())) == {"mean", "var", "low"}
    assert module(ex.ones(4, 2, 3)).shape == (4, 6)


def test_trainable_chooses_the_parameters(mlp):
    data, _ = mlp
    assert list(dict(ex.from_onnx(data, trainable=["2.bias"]).named_parameters())) == ["2.bias"]
    assert len(list(ex.from_onnx(data, trainable=lambda name: name.startswith("0")).parameters())) == 2
    with pytest.raises(ex.errors.ArgumentError, match=r"'2.bia', which is no initializer.*did you mean '2.bias'"):
        ex.from_onnx(data, trainable=["2.bia"])


def test_names_that_a_module_cannot_have_get_an_underscore(model_of):
    names = ["forward", "a", "a.b", "training", "..", "x.y.z"]
    node = helper.make_node("Sum", names, ["y"])
    module = ex.from_onnx(model_of([node], {}, ["y"], {name: np.float32(i) for i, name in enumerate(names)}))
    assert module().item() == 15.0
    assert list(module.state_dict()) == ["forward_", "a", "training_", "a_.b", "_._._", "x.y.z"]


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        ((), {}, ex.errors.DtypeError, r"the input 'x' is missing; expected x: f32\[batch, 4\]"),
        ((ex.ones(2, 4), ex.ones(2, 4)), {}, ex.errors.DtypeError, r"takes 1 input \(x\), got 2"),
        ((ex.ones(2, 4),), {"x": ex.ones(2, 4)}, ex.errors.DtypeError, "'x' was given twice"),
        ((), {"z": ex.ones(2, 4)}, ex.errors.DtypeError, "'z' is none of its inputs, x"),
        ((ex.ones(2, 5),), {}, ex.errors.ShapeError, r"x: f32\[batch, 4\]: size 1 must be 4, got shape \(2, 5\)"),
        ((ex.ones(4),), {}, ex.errors.ShapeError, r"must have 2 dimensions, got shape \(4,\)"),
        ((ex.ones(2, 4).long(),), {}, ex.errors.DtypeError, r"must be extempo.float32, got extempo.int64.*x.float\(\)"),
        ((np.ones((2, 4)),), {}, ex.errors.DtypeError, r"must be a tensor, got ndarray; pass ex.from_numpy\(x\)"),
    ],
)
def test_a_wrong_input_is_named(mlp, args, kwargs, error, message):
    module = ex.from_onnx(mlp[0])
    with pytest.raises(error, match=message):
        module(*args, **kwargs)


def test_sizes_of_one_name_must_agree(model_of):
    node = helper.make_node("Add", ["x", "z"], ["y"])
    module = ex.from_onnx(model_of([node], {"x": ["n"], "z": ["n"]}, ["y"]))
    assert module(z=ex.ones(3), x=ex.ones(3)).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(ex.errors.ShapeError, match="size 0 is 1, but n is 3 in 'x'"):
        module(ex.ones(3), ex.ones(1))


def test_an_input_with_an_initializer_is_a_weight_that_a_call_may_replace(model_of):
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    module = ex.from_onnx(model_of([node], {"x": [2], "w": [2]}, ["y"], {"w": np.array([2, 3], np.float32)}))
    assert module(ex.ones(2)).tolist() == [2.0, 3.0]
    assert module(ex.ones(2), w=ex.zeros(2)).tolist() == [0.0, 0.0]


def test_a_module_is_converted_copied_and_compiled(mlp, normal):
    module = ex.from_onnx(mlp[0])
    x = ex.from_numpy(normal(5, 4))
    y = module(x)
    assert ex.equal(copy.deepcopy(module)(x), y)
    compiled = ex.compile(module)
    for _ in range(3):
        assert ex.allclose(compiled(x), y)
    assert module.double()(x.double()).dtype is ex.float64


def test_a_module_becomes_a_program_with_open_sizes(model_of, normal):
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["y"]),
    ]
    weights = {"zero": np.array([0]), "rest": np.array([6]), "w": normal(6, 2)}
    module = ex.from_onnx(model_of(nodes, {"x": ["n", 2, 3]}, ["y"], weights)).eval()
    program = ex.program(module, {"x": ex.randn(4, 2, 3)}, dynamic={"x": {0: "n"}})
    x = ex.randn(9, 2, 3)
    assert ex.allclose(program(x), module(x))


def test_inputs_that_are_no_tensors_are_refused(model_of):
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], {"x": [2]}, ["y"], as_bytes=False)
    model.graph.input[0].type.CopyFrom(
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    )
    with pytest.raises(ex.errors.UnsupportedError, match="the input 'x' is no tensor but a sequence"):
        ex.from_onnx(model.SerializeToString())
    model.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.STRING, [2]))
    with pytest.raises(ex.errors.UnsupportedError, match="the input 'x': the element type STRING"):
        ex.from_onnx(model.SerializeToString())


def test_weights_of_bodies_are_parameters_too(model_of):
    then = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["p"])], "then", [], [onnx.ValueInfoProto(name="p")],
        [numpy_helper.from_array(np.float32(3), "w")],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["q"])], "else", [], [onnx.ValueInfoProto(name="q")],
        [numpy_helper.from_array(np.float32(5), "w")],
    )  # fmt: skip
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=then, else_branch=other),
    ]
    module = ex.from_onnx(model_of(nodes, {"x": []}, ["y"], {"zero": np.float32(0)}))
    assert set(dict(module.named_parameters())) == {"zero", "w", "w_"}
    y = module(ex.tensor(2.0))
    y.backward()
    assert (y.item(), module.w_.grad.item(), module.w.grad) == (6.0, 2.0, None)  # the file has the else branch first
    assert module(ex.tensor(-2.0)).item() == 3.0
