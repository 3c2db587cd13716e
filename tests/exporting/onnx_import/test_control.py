"""If, Loop and Scan: values from outside, lengths 0 and 1, states that grow, gradients, programs."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ArgumentError, ShapeError

onnx = pytest.importorskip("onnx", reason="ONNX files are read by the extra: pip install -e '.[onnx]'")
from onnx import TensorProto, helper  # noqa: E402

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.fixture
def summing(model_of):
    """Sums of `x * w` over steps while the sum is below `bound`, and each sum; `limit` steps at most."""

    def make(states=1, limit="limit"):
        nodes = [
            helper.make_node("Mul", ["x", "w"], ["p"]),
            helper.make_node("Add", ["s", "p"], ["t"]),
            helper.make_node("Less", ["t", "bound"], ["go"]),
            helper.make_node("Identity", ["t"], ["row"]),
        ]
        body = helper.make_graph(
            nodes, "body", [value("i", INT64, []), value("c", BOOL, []), value("s", FLOAT, [])],
            [value("go", BOOL, []), value("t", FLOAT, []), *([value("row", FLOAT, [])] if states else [])],
        )  # fmt: skip
        loop = helper.make_node("Loop", [limit, "", "zero"], ["y", "rows"][: 1 + bool(states)], body=body)
        inputs = {"x": (["one"][:0], FLOAT), "limit": ([], INT64)} if limit else {"x": ([], FLOAT)}
        weights = {"w": np.float32(2), "bound": np.float32(10), "zero": np.float32(0)}
        return model_of([loop], inputs, ["y", "rows"][: 1 + bool(states)], weights)

    return make


def test_a_loop_ends_at_its_limit_or_its_condition(summing):
    module = ex.from_onnx(summing())
    x = ex.tensor(1.5)
    for limit, expected in ((0, []), (1, [3.0]), (2, [3.0, 6.0]), (99, [3.0, 6.0, 9.0, 12.0])):
        y, rows = module(x, ex.tensor(limit))
        assert rows.tolist() == expected
        assert y.item() == (expected or [0.0])[-1]


def test_a_loop_agrees_with_onnxruntime(summing):
    runtime = pytest.importorskip("onnxruntime")
    data = summing()
    session, module = runtime.InferenceSession(data), ex.from_onnx(data)
    for limit in (0, 1, 3, 50):
        for x in (0.3, 4.0):
            theirs = session.run(None, {"x": np.array(x, np.float32), "limit": np.array(limit)})
            ours = module(ex.tensor(x), ex.tensor(limit))
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-6)


def test_gradients_go_through_as_many_steps_as_ran(summing):
    module = ex.from_onnx(summing())
    y, _ = module(ex.tensor(1.5), ex.tensor(3))
    y.backward()
    assert module.w.grad.item() == pytest.approx(4.5)


def test_a_loop_without_stacked_results_stays_one_in_a_program(summing):
    module = ex.from_onnx(summing(states=0, limit="")).eval()
    program = ex.program(module, {"x": ex.tensor(1.5)})
    for x in (0.1, 1.5, 20.0):
        assert program(ex.tensor(x)).item() == pytest.approx(module(ex.tensor(x)).item())


def test_a_loop_over_rows_with_stacked_results_stays_one_in_a_program(model_of):
    nodes = [
        helper.make_node("Gather", ["x", "i"], ["row"]),
        helper.make_node("Add", ["s", "row"], ["t"]),
        helper.make_node("Mul", ["s", "row"], ["out"]),
        helper.make_node("Identity", ["c"], ["d"]),
    ]
    body = helper.make_graph(
        nodes, "body", [value("i", INT64, []), value("c", BOOL, []), value("s", FLOAT, [2])],
        [value("d", BOOL, []), value("t", FLOAT, [2]), value("out", FLOAT, [2])],
    )  # fmt: skip
    around = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["n"]),
        helper.make_node("Loop", ["n", "", "start"], ["last", "rows"], body=body),
    ]
    weights = {"first": np.array(0), "start": np.ones(2, np.float32)}
    module = ex.from_onnx(model_of(around, {"x": ["n", 2]}, ["last", "rows"], weights)).eval()
    program = ex.program(module, {"x": ex.randn(3, 2)}, dynamic={"x": {0: "n"}})
    for n in (0, 1, 8):
        x = ex.randn(n, 2)
        for a, b in zip(program(x), module(x), strict=True):
            assert ex.allclose(a, b)


def test_states_of_a_loop_may_grow(model_of):
    nodes = [helper.make_node("Concat", ["s", "x"], ["t"], axis=0), helper.make_node("Identity", ["c"], ["d"])]
    body = helper.make_graph(
        nodes, "body", [value("i", INT64, []), value("c", BOOL, []), value("s")], [value("d", BOOL, []), value("t")]
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    module = ex.from_onnx(model_of([loop], {"x": ["k"], "n": ([], INT64)}, ["y"]))
    assert module(ex.ones(2), ex.tensor(3)).shape == (8,)


def test_results_of_a_loop_are_bounded(summing, monkeypatch):
    from extempo.exporting.onnx_import import control

    monkeypatch.setattr(control, "MAX_BYTES", 1000)
    with pytest.raises(ShapeError, match=r"Loop \('y'\): after 4 steps its results take more than"):
        ex.from_onnx(summing())(ex.tensor(0.01), ex.tensor(99))


def test_a_body_that_does_not_fit_its_loop_is_an_error(model_of):
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"])], "body", [value("i", INT64, []), value("c", BOOL, [])],
        [value("d", BOOL, [])],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["", "", "x"], ["y"], body=body)
    with pytest.raises(ArgumentError, match="the body must take 3 values and give at least 2, it takes 2 and gives 1"):
        ex.from_onnx(model_of([loop], {"x": [2]}, ["y"]))(ex.ones(2))


def test_a_branch_reads_values_from_outside_and_shapes_may_differ(model_of):
    yes = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["a"])], "yes", [], [value("a")])
    no = helper.make_graph([helper.make_node("ReduceSum", ["x"], ["b"], keepdims=0)], "no", [], [value("b")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=yes, else_branch=no)
    data = model_of([node], {"c": ([1], BOOL), "x": ["n"]}, ["y"], {"w": np.float32(3)})
    module = ex.from_onnx(data)
    assert module(ex.tensor([True]), ex.ones(2)).tolist() == [3.0, 3.0]
    assert module(ex.tensor([False]), ex.ones(2)).tolist() == 2.0


def test_a_branch_that_sizes_decide_is_decided_when_a_program_is_made(model_of):
    yes = helper.make_graph([helper.make_node("ReduceMax", ["x"], ["a"], keepdims=0)], "yes", [], [value("a")])
    no = helper.make_graph([helper.make_node("ReduceSum", ["x"], ["b"], keepdims=0)], "no", [], [value("b")])
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Greater", ["shape", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=yes, else_branch=no),
    ]
    module = ex.from_onnx(model_of(nodes, {"x": ["n"]}, ["y"], {"zero": np.array([0])})).eval()
    assert module(ex.ones(0)).item() == 0.0
    program = ex.program(module, {"x": ex.ones(3)}, dynamic={"x": {0: "n"}})
    assert program(ex.tensor([2.0, 5.0])).item() == 5.0
    assert "cond" not in str(program)


@pytest.fixture
def scanning(model_of):
    """Running sums of (n, 2) or (2, n), and the last of them."""

    def make(**options):
        nodes = [helper.make_node("Add", ["s", "row"], ["t"]), helper.make_node("Identity", ["t"], ["out"])]
        body = helper.make_graph(
            nodes, "body", [value("s", FLOAT, [2]), value("row", FLOAT, [2])],
            [value("t", FLOAT, [2]), value("out", FLOAT, [2])],
        )  # fmt: skip
        node = helper.make_node("Scan", ["start", "x"], ["last", "sums"], body=body, num_scan_inputs=1, **options)
        return model_of([node], {"start": [2], "x": [None, None]}, ["last", "sums"])

    return make


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scan_input_directions": [1]},
        {"scan_output_directions": [1]},
        {"scan_input_axes": [1], "scan_output_axes": [1]},
        {
            "scan_input_axes": [-1],
            "scan_input_directions": [1],
            "scan_output_axes": [-1],
            "scan_output_directions": [1],
        },
    ],
)
def test_a_scan_agrees_with_onnxruntime(scanning, normal, options):
    runtime = pytest.importorskip("onnxruntime")
    data = scanning(**options)
    session, module = runtime.InferenceSession(data), ex.from_onnx(data)
    for n in (1, 4):
        start, x = normal(2), normal(n, 2)
        x = x.T.copy() if "scan_input_axes" in options else x
        theirs = session.run(None, {"start": start, "x": x})
        for a, b in zip(module(ex.from_numpy(start), ex.from_numpy(x)), theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-5)


def test_a_scan_over_nothing_gives_its_start(scanning):
    last, sums = ex.from_onnx(scanning())(ex.ones(2), ex.ones(0, 2))
    assert last.tolist() == [1.0, 1.0]
    assert sums.shape == (0, 2)


def test_a_scan_stays_one_in_a_program(scanning):
    module = ex.from_onnx(scanning()).eval()
    program = ex.program(module, {"start": ex.ones(2), "x": ex.ones(3, 2)}, dynamic={"x": {0: "n"}})
    for n in (0, 1, 7):
        x = ex.randn(n, 2)
        for a, b in zip(program(ex.ones(2), x), module(ex.ones(2), x), strict=True):
            assert ex.allclose(a, b)


def test_a_number_of_inputs_that_does_not_fit_is_an_error(model_of, scanning):
    data = scanning().replace(b"num_scan_inputs\x18\x01", b"num_scan_inputs\x18\x05")
    with pytest.raises(ArgumentError, match="num_scan_inputs is 5"):
        ex.from_onnx(data)(ex.ones(2), ex.ones(3, 2))
