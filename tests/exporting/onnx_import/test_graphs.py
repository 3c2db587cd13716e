"""Steps from graphs: functions that a file defines, values from outside, and what is refused before anything runs."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.exporting.onnx_import import graphs
from extempo.serialization.files import FileFormatError

onnx = pytest.importorskip("onnx", reason="ONNX files are read by the extra: pip install -e '.[onnx]'")
from onnx import helper  # noqa: E402

SET = [helper.make_opsetid("", 21)]


def leaky(name, calls="LeakyRelu", domain=""):
    """A function of one node whose slope is an attribute of the function."""
    node = helper.make_node(calls, ["a"], ["b"], domain=domain)
    attribute = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    if not domain:
        node.attribute.append(attribute)
    return helper.make_function("own", name, ["a"], ["b"], [node], [*SET, helper.make_opsetid("own", 1)], ["slope"])


def test_a_function_of_the_file_runs_with_the_attributes_of_its_call(model_of):
    nodes = [
        helper.make_node("Leaky", ["x"], ["h"], domain="own", slope=0.5),
        helper.make_node("Leaky", ["h"], ["y"], domain="own"),
    ]
    module = ex.from_onnx(model_of(nodes, {"x": [2]}, ["y"], functions=[leaky("Leaky")], domains=["own"]))
    np.testing.assert_allclose(module(ex.tensor([-4.0, 2.0])).numpy(), [-0.02, 2.0])


def test_functions_that_call_each_other_without_end_are_an_error(model_of):
    functions = [leaky("A", "B", "own"), leaky("B", "A", "own")]
    data = model_of(
        [helper.make_node("A", ["x"], ["y"], domain="own")], {"x": [2]}, ["y"], functions=functions, domains=["own"]
    )
    with pytest.raises(FileFormatError, match="call each other deeper than 50"):
        ex.from_onnx(data)


def test_functions_that_double_at_every_level_are_an_error(model_of, monkeypatch):
    monkeypatch.setattr(graphs, "MAX_STEPS", 1000)
    functions = []
    for i in range(40):
        calls, domain = (f"F{i + 1}", "own") if i < 39 else ("Relu", "")
        nodes = [
            helper.make_node(calls, ["a"], ["m"], domain=domain),
            helper.make_node(calls, ["m"], ["b"], domain=domain),
        ]
        functions.append(
            helper.make_function("own", f"F{i}", ["a"], ["b"], nodes, [*SET, helper.make_opsetid("own", 1)])
        )
    data = model_of(
        [helper.make_node("F0", ["x"], ["y"], domain="own")], {"x": [2]}, ["y"], functions=functions, domains=["own"]
    )
    with pytest.raises(FileFormatError, match="more than 1,000 nodes"):
        ex.from_onnx(data)


@pytest.mark.parametrize(
    ("node", "error", "message"),
    [
        (
            ("Softmox", ["x"], ["y"]),
            ex.errors.UnsupportedError,
            "Softmox .'y'. is not supported.*did you mean 'Softmax'",
        ),
        (("Relu", ["z"], ["y"]), FileFormatError, "reads 'z', which no input, initializer or earlier node gives"),
        (("Relu", ["x"], ["x"]), FileFormatError, "'x' is computed twice"),
        (("Relu", ["x", "x"], ["y"]), FileFormatError, "Relu .'y'. takes 1 to 1 inputs, the file gives it 2"),
        (("Add", ["x"], ["y"]), FileFormatError, "takes 2 to 2 inputs"),
        (("Add", ["", "x"], ["y"]), FileFormatError, "its input 0 may not be left out"),
        (("Flatten", ["x"], ["y"], {"axes": 1}), ex.errors.UnsupportedError, "attribute 'axes' is not.*mean 'axis'"),
        (("Flatten", ["x"], ["y"], {"axis": 1.5}), FileFormatError, "the attribute 'axis' must be of type int"),
        (("MaxPool", ["x"], ["y"]), FileFormatError, "must have the attribute 'kernel_shape'"),
        (
            ("FusedMatMul", ["x"], ["y"], {"domain": "com.microsoft"}),
            ex.errors.UnsupportedError,
            "domain 'com.microsoft'",
        ),
        (("Constant", [], ["y"], {"value_strings": ["a"]}), ex.errors.UnsupportedError, "'value_strings'"),
        (("Constant", [], ["y"]), FileFormatError, "must have one value and one output"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(model_of, node, error, message):
    op, inputs, outputs, *rest = node
    made = helper.make_node(op, inputs, outputs, **(rest[0] if rest else {}))
    with pytest.raises(error, match=message):
        ex.from_onnx(model_of([made], {"x": [2]}, ["y"]))


def test_an_error_at_run_time_names_the_node(model_of):
    data = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")],
        {"x": ["n", "k"]},
        ["y"],
        {"w": np.ones((3, 2), np.float32)},
    )
    with pytest.raises(ex.errors.ShapeError, match=r"from_onnx: MatMul \('mm'\): matmul: "):
        ex.from_onnx(data)(ex.ones(2, 4))


def test_a_file_without_a_version_of_the_operator_set_is_an_error(model_of):
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"], as_bytes=False)
    model.opset_import[0].domain = "elsewhere"
    with pytest.raises(FileFormatError, match="names no version of that operator set"):
        ex.from_onnx(model.SerializeToString())


def test_outputs_that_nobody_computes_are_refused_by_name(run_node, normal):
    with pytest.raises(ex.errors.UnsupportedError, match=r"Relu \('y0'\) has 2 outputs, of which only 1"):
        run_node("Relu", [normal(2)], 2)


def test_values_are_let_go_after_their_last_use(model_of):
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Abs", ["a"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    module = ex.from_onnx(model_of(nodes, {"x": [2]}, ["y"]))
    assert [step.drops for step in module._body.steps] == [("x",), (), ("a", "b")]
