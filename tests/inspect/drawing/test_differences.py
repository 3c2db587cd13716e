"""`diff`: what came, what went, what changed."""

import json

import extempo as ex
from extempo import nn
from extempo.inspect import diff, draw

from .models import Reader


def test_graphs_that_are_the_same_have_no_difference():
    model = Reader()
    found = diff(draw(model, [1, 2]), draw(model, [3, 4]))
    assert [change.kind for change in found.changes] == ["arguments", "arguments"]  # the words
    x = ex.ones(2, requires_grad=True)
    same = diff(x.exp(), draw(x.exp()))
    assert not [change for change in same.changes if change.kind in ("added", "removed", "shape")]
    assert not diff(draw(nn.ReLU(), x), draw(nn.ReLU(), x))
    assert str(diff(draw(nn.ReLU(), x), draw(nn.ReLU(), x))) == "no difference"


def test_another_turn_of_a_loop_is_added():
    model = Reader()
    found = diff(draw(model, [1, 1]), draw(model, [1, 1, 1]))
    added = [change for change in found.changes if change.kind == "added"]
    assert len(added) == 17
    assert {change.module for change in added} == {"embed: Embedding", "cell: GRUCell"}


def test_other_layers_and_shapes_are_told_and_coloured():
    x = ex.ones(1, 2)
    a = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    b = nn.Sequential(nn.Linear(2, 4), nn.Tanh())
    found = diff(draw(a, x), draw(b, x))
    assert [(c.kind, c.op) for c in found.changes] == [("shape", "linear"), ("removed", "relu"), ("added", "tanh")]
    assert found
    assert len(found) == 3
    assert {item.status for item in found.drawing.diagram.ops()} == {"changed", "removed", "added"}
    assert "(1, 3) is now (1, 4)" in str(found)
    assert json.loads(found.to_json())["changes"][0]["before"] == "(1, 3)"


def test_another_line_is_told():
    x = ex.ones(2, requires_grad=True)
    first = x.exp()
    second = x.exp()
    (change,) = diff(first, second).changes
    assert change.kind == "line"
    assert change.before != change.after


def test_it_is_saved_as_a_drawing(tmp_path):
    x = ex.ones(2, requires_grad=True)
    found = diff((x * 2).sum(), (x * 2).exp().sum())
    assert "added" in found.save(tmp_path / "diff.html").read_text(encoding="utf-8")
    assert found.picture().svg().startswith("<svg")
    assert found._repr_svg_().startswith("<svg")


def test_many_changes_are_counted():
    x = ex.ones(2, requires_grad=True)
    y = x
    for _ in range(60):
        y = y.exp()
    assert "and 20 more" in str(diff(x * 1, y * 1))


def test_differences_are_marked_in_the_second_diagram():
    import extempo as ex
    from extempo.inspect.drawing.differences import marked_differences

    x = ex.ones(3, requires_grad=True)
    before, after = (ex.inspect.draw(y).diagram for y in ((x * 2).sum(), (x * 2).exp().sum()))
    found = marked_differences(before, after)
    assert [change.kind for change in found.changes] == ["added"]
    assert {item.op: item.status for item in after.ops()} == {"mul": "", "exp": "added", "sum": ""}
