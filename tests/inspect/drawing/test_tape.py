"""Graphs as diagrams: lines fold, loops are found, inner graphs are groups."""

import extempo as ex
from extempo import nn
from extempo.inspect import draw
from extempo.inspect.drawing.tape import code_of

from .models import Reader


def test_a_loop_that_hands_on_a_state_and_shares_weights_rolls_up():
    model = Reader()
    drawing = draw(model([1, 2, 3, 4]).sum(), model=model)
    (loop,) = [g for g in drawing.diagram.groups() if g.period]
    assert loop.turns == 4
    assert loop.name == "state = self.cell(self.embed(word), state)"


def test_ops_of_one_line_fold_into_it():
    x = ex.ones(3, requires_grad=True)
    y = x.exp().sin().cos()
    drawing = draw(y.sum())
    (line,) = [g for g in drawing.diagram.groups() if g.kind == "line"]
    assert line.name == "y = x.exp().sin().cos()"
    assert [drawing.diagram.item(m).op for m in line.members] == ["exp", "sin", "cos"]


def test_parameters_stand_beside_their_ops_and_inputs_in_the_flow():
    x, layer = ex.ones(2, requires_grad=True), nn.Linear(2, 3)
    drawing = draw(layer(x))
    inputs = [item for item in drawing.diagram.items() if item.kind == "input"]
    assert [item.shapes for item in inputs] == [["(2)"]]
    (linear,) = drawing.diagram.ops()
    assert [p.shape for p in linear.parameters] == ["(3, 2)", "(3)"]


def test_an_op_with_several_results_is_one_box():
    x = ex.ones(4, requires_grad=True)
    low, high = x.sort()[0].split(2)
    assert [item.op for item in draw(low + high).diagram.ops()].count("sort") <= 1


def test_a_leaf_alone_is_drawn():
    (item,) = draw(ex.ones(2, requires_grad=True)).diagram.items()
    assert item.is_output


def test_branches_of_a_program_are_groups():
    program = ex.program(lambda x: x * 2 if x.sum() > 0 else -x, ex.ones(3))
    names = [g.name for g in draw(program).diagram.groups()]
    assert {"cond", "true", "false"} <= set(names)


def test_a_line_that_cannot_be_read_has_no_code():
    assert code_of("<stdin>:3") == ""
    assert code_of("nowhere") == ""
