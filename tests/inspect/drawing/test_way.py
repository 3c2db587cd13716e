"""The way to a chosen node."""

import pytest

import extempo as ex
from extempo.inspect import draw
from extempo.inspect.drawing.way import way_to

from .models import Reader


def program(x):
    return x.exp() + 1, x.sin().cos()


def ops(diagram, to):
    return [diagram.item(n).title for n in sorted(way_to(diagram, to))]


def test_all_that_a_value_was_made_from_is_on_its_way():
    diagram = draw(program, ex.ones(1)).diagram
    assert ops(diagram, "cos") == ["x", "sin", "cos"]
    assert ops(diagram, "x") == ["x"]


def test_a_node_is_chosen_by_its_line_or_number_too():
    diagram = draw(program, ex.ones(1)).diagram
    line = next(item.where for item in diagram.ops()).rpartition("/")[2]
    assert len(ops(diagram, line)) == 5
    number = next(item.number for item in diagram.ops() if item.op == "exp")
    assert ops(diagram, number) == ["x", "exp"]


def test_a_module_is_chosen_by_its_name():
    diagram = draw(Reader(), [1, 2]).diagram
    assert len(ops(diagram, "score")) == 35


def test_a_name_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(KeyError, match=r"nothing here is called 'tan'; there are add, cos"):
        draw(program, ex.ones(1), to="tan")
