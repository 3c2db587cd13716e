"""`draw`: every node has a box of its own, and lines run beside boxes, not behind them."""

import re
from xml.etree import ElementTree

import pytest

import extempo as ex
from extempo import nn
from extempo.inspect import draw
from extempo.inspect.drawing import MOST_OPS

SVG = "{http://www.w3.org/2000/svg}"


def recurrent(n_steps: int):
    cell, state = nn.GRUCell(2, 3), ex.zeros(3)
    for _ in range(n_steps):
        state = cell(ex.ones(2), state)
    return state


def boxes(svg: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    rects = [r for r in svg.iter(f"{SVG}rect") if r.get("x") is not None]
    return [tuple(float(r.get(key)) for key in ("x", "y", "width", "height")) for r in rects]


def lines(svg: ElementTree.Element) -> list[list[tuple[float, float]]]:
    found = []
    for path in svg.iter(f"{SVG}path"):
        numbers = [float(n) for n in re.findall(r"[0-9.]+", path.get("d"))]
        found.append(list(zip(numbers[::2], numbers[1::2], strict=True)))
    return found


@pytest.mark.parametrize("make", [lambda: recurrent(1), lambda: recurrent(4), lambda: ex.ones(2, requires_grad=True)])
def test_each_node_has_a_box_inside_the_picture_and_none_overlap(make):
    result = make()
    graph = ex.Graph.of(result)
    svg = ElementTree.fromstring(str(draw(result)))
    found = boxes(svg)
    assert len(found) == len(graph)
    assert len({(x, y) for x, y, _, _ in found}) == len(found)
    width, height = float(svg.get("width")), float(svg.get("height"))
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in found)


def test_no_line_passes_behind_a_box():
    svg = ElementTree.fromstring(str(draw(recurrent(3))))
    for points in lines(svg):
        (x, top), (_, bottom), _ = points
        for left, y, width, height in boxes(svg):
            inside = left < x < left + width and top < y + height and y < bottom
            assert not inside, f"the line down {x} from {top} to {bottom} passes behind the box at {left}, {y}"


def test_a_line_stands_for_each_use():
    x = ex.tensor(3.0, requires_grad=True)
    assert len(lines(ElementTree.fromstring(str(draw(x * x + x))))) == 4


def test_a_graph_can_be_drawn_and_titled():
    x = ex.tensor(2.0, requires_grad=True)
    picture = draw(ex.Graph.of(x.exp()), "a < b")
    assert ">a &lt; b</text>" in str(picture)
    assert ">exp</text>" in str(picture)


def test_parameters_have_names_where_the_model_is_known():
    model = nn.Linear(2, 1)
    svg = str(draw(model(ex.ones(2)), model=model))
    assert ">weight</text>" in svg
    assert ">bias</text>" in svg
    assert ">parameter</text>" not in svg


def test_the_end_of_a_very_long_graph_is_drawn_and_the_rest_counted():
    x = ex.ones(1, requires_grad=True)
    for _ in range(MOST_OPS + 9):
        x = x.exp()
    picture = draw(x, "many")
    assert f"many (the last {MOST_OPS} of {MOST_OPS + 9} ops)" in str(picture)
    assert len(boxes(ElementTree.fromstring(str(picture)))) == MOST_OPS
    assert str(picture).count("stroke-dasharray") == 1  # the way to what is left out


def test_the_end_of_a_very_long_graph_still_has_its_parameters():
    picture = draw(recurrent(200))
    assert str(picture).count(">parameter</text>") == 4
    assert picture.width < 2500


def test_a_node_stands_right_above_its_first_use():
    x, late = ex.tensor(1.0, requires_grad=True), ex.tensor(2.0, requires_grad=True).exp()
    svg = ElementTree.fromstring(str(draw(x.sin().sin().sin() * late)))
    heights = {t.text: float(t.get("y")) for t in svg.iter(f"{SVG}text")}  # of three sines the last one
    assert heights["exp"] == heights["sin"] < heights["mul"]


def test_several_results_and_ragged_ones_are_drawn_together():
    x = ex.ones(2, requires_grad=True)
    assert {">exp</text>", ">sin</text>"} <= set(re.findall(r">\w+</text>", str(draw({"a": x.exp(), "b": [x.sin()]}))))
    assert ">embedding</text>" in str(draw(nn.Embedding(5, 2)(ex.ragged([[1, 2], [3]]))))


def test_where_nothing_was_recorded_the_picture_says_so():
    assert "nothing was recorded" in str(draw(ex.ones(2) * 2))


@pytest.mark.parametrize("what", [3, nn.Linear(2, 2), [1.0]])
def test_what_has_no_graph_is_refused_with_what_would_have_one(what):
    with pytest.raises(TypeError, match="draw: expected a tensor or a Graph, got"):
        draw(what)


def test_a_picture_is_written_as_it_is(tmp_path):
    picture = draw(ex.ones(1, requires_grad=True) + 1)
    assert picture.save(tmp_path / "graph.svg").read_text() == str(picture)
