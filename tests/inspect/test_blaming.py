"""Which op is to blame, in a graph whose values are known."""

from __future__ import annotations

import extempo as ex
from extempo import nn
from extempo.inspect.blaming import blame_backward, blame_forward, module_of, name_of, values_of


def test_values_that_nothing_saved_are_computed_again():
    w = ex.ones(3, requires_grad=True)
    y = ((w + 1) * 3).sum()
    graph = ex.Graph.of(y)
    values = values_of(graph)
    assert [float(values[node].sum()) for node in graph if node.op.name in ("add", "mul", "sum")] == [6.0, 18.0, 18.0]


def test_an_infinity_goes_back_to_the_op_with_finite_inputs():
    w = ex.zeros(3, requires_grad=True)
    y = (w.log() * 2).sum()
    blame = blame_forward(y.grad_fn, values_of(ex.Graph.of(y)))
    assert (blame.op, blame.made, blame.inputs) == ("log", "3 inf", "0 .. 0")
    assert [part.split(" ")[0] for part in blame.chain] == ["log", "mul", "sum"]


def test_data_that_came_in_bad_are_nobodys_op():
    w = ex.tensor([float("nan")], requires_grad=True)
    y = (w * 2).sum()
    assert blame_forward(y.grad_fn, values_of(ex.Graph.of(y))) is None


def test_the_trap_of_where_is_told():
    x = ex.tensor([0.0, 1.0], requires_grad=True)
    y = ex.where(x > 0, x.sqrt() / x, 0.0).sum()
    blame, leaf = blame_backward([(y.grad_fn, ex.ones(()))], values_of(ex.Graph.of(y)))
    assert blame.in_backward
    assert blame.op in ("div", "sqrt")
    assert leaf.variable is x
    assert x.grad is None  # nothing is added


def test_a_finite_backward_has_nobody_to_blame():
    w = ex.ones(3, requires_grad=True)
    y = (w * w).sum()
    assert blame_backward([(y.grad_fn, ex.ones(()))], {}) is None


def test_modules_are_known_by_parameters_and_by_the_code_of_forward():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(x).exp()

    model = nn.Sequential(Twice(), Twice())
    y = model(ex.ones(1, 2)).sum()
    graph = ex.Graph.of(y)
    named = {node.op.name: module_of(node, graph, model) for node in graph if node.inputs}
    assert named["linear"] == "1.linear"
    assert named["exp"] == "1"
    assert name_of(next(n for n in graph if n.op.name == "leaf" and n.variable is model[0].linear.bias), None) == (
        "0.linear.bias"
    )
