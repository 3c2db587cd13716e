"""Graphs of programs are walked and edited, checked, run, saved; a bad edit leaves the program as it was."""

from __future__ import annotations

import io

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ExportError, GraphError
from extempo.exporting import Program

r = ex.randn


@pytest.fixture
def model():
    ex.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).eval()


@pytest.fixture
def program(model):
    return ex.program(model, r(2, 4), dynamic={"input": {0: "n"}})


def read_again(program):
    file = io.BytesIO()
    program.save(file)
    file.seek(0)
    return ex.load_program(file)


def test_nodes_have_ops_inputs_attributes_types_and_lines(program):
    assert [node.op.name for node in program.graph][-3:] == ["linear", "relu", "linear"]
    first, relu, last = program.graph.nodes[-3:]
    assert relu.inputs == (first,)
    assert str(last.type) == "f32[n, 2]"
    assert program.graph.outputs == [last]
    assert "test_editing.py" in last.line


def test_a_node_is_replaced_by_a_function_and_the_program_runs_and_is_saved(program, model):
    with program.edit() as graph:
        for node in graph.find("relu"):
            graph.replace(node, graph.call(lambda x: ex.tanh(x) * 2, *node.inputs))
    x = r(5, 4)
    expected = model[2](ex.tanh(model[0](x)) * 2)
    assert ex.allclose(program(x), expected)
    assert ex.allclose(read_again(program)(x), expected)
    assert not [n for n in program.graph if n.op.name == "relu"]
    assert ex.allclose(program.module()(x), expected)


def test_what_a_new_node_reads_itself_stays(program, model):
    with program.edit() as graph:
        (node,) = graph.find("relu")
        graph.replace(node, graph.call(lambda y: y + ex.ones(3), node))
    x = r(3, 4)
    assert ex.allclose(program(x), model[2](ex.relu(model[0](x)) + 1))
    assert program.weights["constant_0"].tolist() == [1, 1, 1]


def test_weights_are_added_read_and_left_out_when_nothing_needs_them(program, model):
    a, b = r(3, 1), r(1, 4)
    with program.edit() as graph:
        first = graph.find("linear")[0]
        low = graph.call(lambda y, x, a, b: y + x @ b.T @ a.T, first, first.inputs[0], *(
            graph.add_weight(name, t) for name, t in [("low.a", a), ("low.b", b)]
        ))  # fmt: skip
        graph.replace(first, low)
        assert graph.weight("0.bias") in first.inputs
    x = r(3, 4)
    assert ex.allclose(program(x), model[2](ex.relu(model[0](x) + x @ b.T @ a.T)), atol=1e-6)
    with program.edit() as graph:
        low = graph.find("add")[0]
        graph.replace(low, graph.find("linear")[0])
    assert list(program.weights) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_result_is_added_to_those_that_there_are(program, model):
    with program.edit() as graph:
        graph.add_output("hidden", graph.find("relu")[0])
    x = r(3, 4)
    y, hidden = read_again(program)(x)
    assert ex.allclose(y, model(x))
    assert ex.allclose(hidden, ex.relu(model[0](x)))
    assert "hidden: f32[n, 3]" in repr(program)


def test_functions_with_branches_and_nodes_inside_loops_are_edited():
    def fn(x):
        h = ex.zeros(2)
        for row in x:
            h = ex.tanh(h + row)
        return h

    program = ex.program(fn, r(3, 2), dynamic={"x": {0: "n"}})
    with program.edit() as graph:
        (node,) = graph.find("tanh")
        graph.replace(node, graph.call(lambda y: y * 2 if y.sum() > 0 else y, node))
    x = r(6, 2)
    h = ex.zeros(2)
    for row in x:
        h = ex.tanh(h + row)
        h = h * 2 if h.sum() > 0 else h
    assert ex.allclose(program(x), h)
    assert ex.allclose(read_again(program)(x), h)


def test_states_stay_the_last_outputs():
    program = ex.program(nn.BatchNorm1d(3), r(4, 3), training=True)
    with program.edit() as graph:
        graph.add_output("twice", graph.call(lambda y: y * 2, graph.graph.outputs[0]))
    (y, twice), state = program(r(4, 3))
    assert ex.allclose(twice, y * 2)
    assert int(state["num_batches_tracked"]) == 1


def circle(graph, linear, relu):
    linear.inputs = (relu, *linear.inputs[1:])


def other_attributes(graph, linear, relu):
    graph.replace(relu, graph.call(lambda x: x.sum(1, keepdim=True).expand(-1, 3), relu))
    graph.find("sum")[0].attrs = {"dim": (0,), "keepdim": True}


def number_for_a_tensor(graph, linear, relu):
    relu.inputs = ("text",)


MISTAKES = {
    "other type": lambda graph, linear, relu: graph.replace(relu, graph.call(lambda x: x.sum(1), relu)),
    "of another program": lambda graph, linear, relu: graph.replace(relu, ex.program(ex.relu, r(2, 3)).graph.nodes[-1]),
    "no such weight": lambda graph, linear, relu: graph.weight("nothing"),
    "weight twice": lambda graph, linear, relu: graph.add_weight("0.bias", ex.ones(3)),
    "circle": circle,
    "other attributes": other_attributes,
    "number for a tensor": number_for_a_tensor,
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_bad_edit_is_an_error_and_changes_nothing(program, mistake):
    before = str(program)

    def edit():
        with program.edit() as graph:
            mistake(graph, graph.find("linear")[0], graph.find("relu")[0])

    with pytest.raises((ExportError, GraphError), match="edit: "):
        edit()
    assert str(program) == before
    assert program(ex.ones(3, 4)).shape == (3, 2)


def test_the_text_of_a_program_is_read_back_with_its_weights(program):
    again = Program.parse(str(program), program.weights)
    x = r(3, 4)
    assert ex.equal(again(x), program(x))
