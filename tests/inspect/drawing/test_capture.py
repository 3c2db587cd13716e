"""Capture: every op, where its inputs come from, and what is in it."""

import pytest

import extempo as ex
from extempo import nn
from extempo.inspect import draw
from extempo.inspect.drawing.capture import models_in, value_summary

from .models import Broken


def by_op(drawing):
    return {item.op: item for item in drawing.diagram.ops()}


def test_ops_without_gradients_are_there_too():
    ops = by_op(draw(lambda x: (x > 0).float().sum(), ex.ones(3)))
    assert {"gt", "sum"} <= set(ops)
    assert not ops["sum"].grad


def test_an_op_after_a_write_comes_from_the_write():
    def program(x):
        y = x.exp()
        y[0] = 5.0
        return y.sum()

    drawing = draw(program, ex.ones(3))
    total = by_op(drawing)["sum"]
    source = drawing.diagram.item(total.inputs[0])
    assert source.op not in ("exp", "leaf")
    assert total.is_output


def test_numbers_and_attributes_are_arguments():
    ops = by_op(draw(lambda x: (x * 3).sum(dim=1), ex.ones(2, 2)))
    assert ops["mul"].arguments == "3"
    assert "dim" in ops["sum"].arguments


def test_tensors_of_a_list_are_one_input():
    drawing = draw(lambda xs: xs[0] + xs[1], [ex.ones(2), ex.ones(2)])
    inputs = [item for item in drawing.diagram.items() if item.kind == "input"]
    assert [(item.name, item.shapes) for item in inputs] == [("xs", ["2 x (2)"])]


def test_a_line_is_known_of_each_op():
    (item,) = draw(lambda x: x.exp(), ex.ones(2)).diagram.ops()
    assert "test_capture.py:" in item.where


def test_a_module_that_runs_no_op_is_no_group():
    drawing = draw(nn.Sequential(nn.Identity(), nn.ReLU()), ex.ones(2))
    assert [drawing.diagram.elements[member].title for member in drawing.diagram.root.members] == ["input", "1: ReLU"]


def test_a_run_that_raises_keeps_the_ops_up_to_there():
    with pytest.raises(ex.errors.ShapeError) as raised:
        draw(Broken(), ex.ones(3, 4))
    drawing = draw(raised.value)
    ops = list(drawing.diagram.ops())
    assert [item.kind for item in ops] == ["op", "op", "error"]
    assert "ShapeError" in drawing.diagram.error


def test_the_modules_of_a_function_are_those_it_knows():
    layer = nn.Linear(1, 1)
    assert models_in(layer, ()) == {"": layer}
    assert models_in(lambda x: layer(x), ()) == {"layer": layer}
    assert models_in(lambda model: model, (layer,)) == {"model": layer}
    assert models_in(layer.forward, ()) == {"self": layer}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1.0, float("nan"), 3.0], "1..3, mean 2, 1 nan"),
        ([0.0, 0.0, 1.0], "67% zeros"),
        ([1, 5], "1..5"),
        ([True, False], "1 of 2 true"),
        ([2.5], "2.5"),
        ([], "no elements"),
    ],
)
def test_values_are_summed_up_in_a_few_words(values, said):
    assert said in value_summary(ex.tensor(values))


def test_cuts_of_gradients_are_said_and_lead_back_to_what_was_cut():
    layer = nn.Linear(3, 3)

    def cut(x):
        h = layer(x)
        kept = h.relu().detach() * 2
        with ex.no_grad():
            apart = h.exp()
        return h * kept * apart

    diagram = ex.inspect.draw(cut, ex.ones(2, 3)).diagram
    linear, relu, times, exp, *rest = diagram.ops()
    assert times.inputs == [relu.number]  # nobody has the result of relu itself any more
    (detached,), (apart,) = times.notes, exp.notes
    assert detached.startswith("gradients end: detach() at ")
    assert apart.startswith("gradients end: no_grad")
    assert not any(item.notes for item in (linear, relu, *rest))
