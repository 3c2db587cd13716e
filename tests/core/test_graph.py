"""Graph: collected on demand, printed, read back, verified."""

from __future__ import annotations

import extempo as ex
from extempo.core.graph import Graph


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


def test_nodes_are_found_by_op_line_and_whether_they_need_a_gradient():
    x = ex.ones(2, requires_grad=True)
    graph = Graph.of((x.exp() * ex.ones(2)).sum())
    (exp,) = graph.find(op="exp")
    assert graph.find(line=exp.line.rpartition("/")[2]) == [n for n in graph if n.where is not None]
    assert [n.requires_grad for n in graph.find(op="leaf", requires_grad=False)] == [False]
    assert graph.find(op="tanh") == []


def test_users_and_what_comes_before_and_after_a_node():
    x = ex.ones(2, requires_grad=True)
    graph = Graph.of((x.exp() + x.sin()).sum())
    (sin,) = graph.find(op="sin")
    assert [n.op.name for n in graph.users(sin)] == ["add"]
    assert [n.op.name for n in graph.before(sin)] == ["leaf", "sin"]
    after = graph.after(sin)
    assert [n.op.name for n in after] == ["sin", "add", "sum"]
    assert after.outputs == graph.outputs
