"""Programs that raised: drawn up to the failing op, with the shapes of its operands."""

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError
from extempo.inspect import draw, on_error

from .models import Broken


def failing(drawing):
    return next(item for item in drawing.diagram.items() if item.kind == "error")


def test_the_history_of_the_operands_leads_to_the_failing_op():
    with pytest.raises(ShapeError) as raised:
        Broken()(ex.ones(3, 4))
    drawing = draw(raised.value)
    item = failing(drawing)
    assert item.op == "linear"
    assert [drawing.diagram.item(i).op for i in item.inputs] == ["relu"]
    assert [(p.name, p.shape) for p in item.parameters] == [("head.weight", "(2, 5)"), ("head.bias", "(2)")]
    assert drawing.diagram.group(item.parent).title == "head: Linear"
    assert "ShapeError" in drawing.text(80)


def test_operands_have_the_names_of_the_users_line():
    left, right = ex.ones(2, 3, requires_grad=True), ex.ones(2, 3)
    with pytest.raises(ShapeError) as raised:
        left @ right
    item = failing(draw(raised.value))
    assert item.notes[0] == "operands left (2, 3), right (2, 3)"
    assert item.notes[1] == "left @ right"
    assert "test_errors.py:" in item.where


def test_without_gradients_the_operands_are_there_still():
    with ex.no_grad(), pytest.raises(ShapeError) as raised:
        Broken()(ex.ones(3, 4))
    assert "(3, 6)" in failing(draw(raised.value)).notes[0]


def test_an_error_of_python_is_drawn_as_well():
    def program(x):
        y = x.exp()
        return y + {}["key"]

    with pytest.raises(KeyError) as raised:
        program(ex.ones(2, requires_grad=True))
    item = failing(draw(raised.value))
    assert item.op == "program"
    assert "KeyError" in item.message


def test_an_error_that_was_never_raised_has_a_drawing_too():
    assert failing(draw(ValueError("no"))).message == "ValueError: no"


def test_a_block_writes_the_graph_and_lets_the_error_go_on(tmp_path):
    path = tmp_path / "graph.html"
    with pytest.raises(ShapeError) as raised, on_error(path):
        Broken()(ex.ones(3, 4))
    assert "ShapeError" in path.read_text(encoding="utf-8")
    assert raised.value.__notes__[0] == f"the graph up to here is drawn in {path}"


def test_a_block_that_does_not_fail_writes_nothing(tmp_path):
    with on_error(tmp_path / "graph.html"):
        ex.ones(2) + 1
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_does_not_hide_the_error(tmp_path):
    with pytest.raises(ShapeError) as raised, on_error(tmp_path / "graph.jpg"):
        ex.ones(2, 3) @ ex.ones(2, 3)
    assert "could not be drawn" in raised.value.__notes__[-1]


def test_every_op_of_a_block_is_drawn_where_nothing_records(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    path = tmp_path / "graph.txt"
    with pytest.raises(ex.errors.ShapeError) as caught, ex.inspect.on_error(path, every_op=True), ex.no_grad():
        model(ex.ones(2, 3)).exp() @ ex.ones(2, 2)
    diagram = ex.inspect.draw(caught.value).diagram
    assert [item.op for item in diagram.ops()] == ["linear", "relu", "exp", "matmul"]
    assert not diagram.notes
    assert "model: Sequential" in path.read_text()
    assert not any(module._forward_hooks for module in model.modules())


def test_an_error_of_no_op_stands_after_the_ops_before_it(tmp_path):
    def wrong():
        ex.ones(2).exp()
        {}["key"]

    with pytest.raises(KeyError) as caught, on_error(tmp_path / "graph.svg", every_op=True):
        wrong()
    *_, exp, raised = ex.inspect.draw(caught.value).diagram.ops()
    assert (exp.op, raised.op, raised.kind) == ("exp", "KeyError", "error")
    line = caught.traceback[-1].lineno + 1
    assert raised.where.endswith(f":{line}")


def test_a_drawing_without_a_history_says_why():
    with pytest.raises(ex.errors.ShapeError) as caught, ex.no_grad():
        ex.ones(2, 3).exp() @ ex.ones(2, 2)
    (note,) = ex.inspect.draw(caught.value).diagram.notes
    assert "no_grad" in note
    assert "every_op=True" in note
