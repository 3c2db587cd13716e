"""Graph: collected on demand, printed, read back, verified."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.core.graph import Graph, split_arguments, without_comment
from extempo.errors import GraphError


def program(x, w):
    return ex.tanh(x @ w * 2.0 + 1).sum(0)[1:]


def test_of_collects_what_made_a_tensor_in_order():
    x, w = ex.ones(2, 3), ex.ones(3, 4, requires_grad=True)
    graph = Graph.of(program(x, w))
    assert [n.op.name for n in graph] == ["leaf", "leaf", "matmul", "mul", "add", "tanh", "sum", "slice"]
    numbers = [n.number for n in graph]
    assert numbers == sorted(numbers)
    graph.verify()


def test_a_tensor_used_twice_is_one_leaf():
    x = ex.ones(3)
    w = ex.ones(3, requires_grad=True)
    graph = Graph.of(x * w + x)
    assert len(graph.inputs) == 2


def test_printed_graph_names_types_and_lines():
    w = ex.ones(2, requires_grad=True)
    text = str(Graph.of(w.exp()))
    assert "%0: f32[2] requires_grad" in text
    assert "%1 = exp(%0) : f32[2]" in text
    assert "test_graph.py:" in text


def test_parse_reads_back_what_str_wrote():
    x, w = ex.ones(2, 3), ex.ones(3, 4, requires_grad=True)
    graph = Graph.of(program(x, w))
    again = Graph.parse(str(graph))
    assert [(n.op, n.attrs, n.type) for n in again] == [(n.op, n.attrs, n.type) for n in graph]
    assert [n.requires_grad for n in again.inputs] == [n.requires_grad for n in graph.inputs]
    again.verify()


def test_graphs_inside_nodes_are_printed_below_them_and_read_back():
    made = ex.program(lambda x: x * 2 if x.sum() > 0 else -x, ex.ones(3)).graph
    again = Graph.parse(str(made))
    assert str(again) == "\n".join(line.split("  #")[0] for line in str(made).splitlines())
    (branch,) = [n for n in again if n.op.name == "cond"]
    assert [n.op.name for n in branch.attrs["true_graph"]] == ["leaf", "mul"]


@pytest.mark.parametrize("text", ["it's", 'say "it\'s"', "ends with \\", "a, (b", "x  # y", "'", '\\"'])
def test_arguments_are_split_and_comments_cut_outside_of_quotes_only(text):
    assert split_arguments(f"%0, {text!r}, k=(1, 2)") == ["%0", repr(text), "k=(1, 2)"]
    assert without_comment(f"%1 = f({text!r})  # it's line 3") == f"%1 = f({text!r})"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph(\n  %0: f32[b]\n) {\n  return %0\n}", "Program.parse"),
        ("graph(\n  %0: f32[2]\n) {\n  return %0", "the text ends in line 4"),
        ("graph(\n  %0: f32[2]\n) {\n  %1 = nonsense(%0) : f32[2]\n  return %1\n}", "not registered"),
        ("graph(\n) {\n  return %7\n}", "%7"),
        ("graph(\n  %0: f32[2]\n) {\n  %1 = exp(%0) : f32[3]\n  return %1\n}", "should give f32"),
        ("graph(\n  what is this\n) {\n}", "line 2"),
    ],
)
def test_parse_refuses_bad_text_and_says_where(text, message):
    with pytest.raises(GraphError, match=message):
        Graph.parse(text)


def test_next_functions_walk_the_graph_as_in_pytorch():
    x = ex.ones(2, requires_grad=True)
    y = (x * ex.ones(2)).exp()
    assert y.grad_fn.name() == "ExpBackward"
    ((mul, index),) = y.grad_fn.next_functions
    assert mul.name() == "MulBackward"
    assert index == 0
    (leaf, _), (nothing, _) = mul.next_functions
    assert leaf.name() == "AccumulateGrad"
    assert leaf.variable is x
    assert nothing is None
