"""The picture: every box, arrows with heads and shapes, gradients and ways in their colours."""

from xml.etree import ElementTree

import pytest

import extempo as ex
from extempo import nn
from extempo.inspect import draw
from extempo.inspect.drawing.svg_writer import GRADIENT, WAY

from .models import Reader

SVG = "{http://www.w3.org/2000/svg}"


def test_it_is_svg_with_a_word_for_every_box_and_a_head_for_every_arrow():
    drawing = draw(Reader(), [1, 2]).unfold()
    root = ElementTree.fromstring(drawing.svg())
    words = [t.text for t in root.iter(f"{SVG}text")]
    assert words.count("linear") == 3
    assert "(12)" in words
    assert "weight_ih (12, 3)" in words
    pills = sum(len(i.parameters) for i in drawing.diagram.ops() if i.number in drawing.view.frame_of)
    assert len(list(root.iter(f"{SVG}polygon"))) == len(drawing.view.edges) + pills


def test_everything_lies_inside():
    root = ElementTree.fromstring(draw(Reader(), [1, 2]).unfold().svg())
    width, height = float(root.get("width")), float(root.get("height"))
    for rect in root.iter(f"{SVG}rect"):
        if rect.get("x") is not None:
            x, y, w, h = (float(rect.get(key)) for key in ("x", "y", "width", "height"))
            assert min(x, y) >= 0
            assert x + w <= width + 4
            assert y + h <= height + 4


def test_a_recurrent_network_of_ten_steps_fits_a_screen_folded():
    picture = draw(Reader(), list(range(10))).picture()
    assert picture.width < 1280
    assert picture.height < 800


def test_gradients_have_a_colour_where_they_flow():
    layer, x = nn.Linear(2, 2), ex.ones(1, 2)
    assert GRADIENT in draw(lambda x: layer(x).relu(), x, gradients=True).svg()
    assert GRADIENT not in draw(lambda x: layer(x).relu(), x).svg()


def test_the_way_to_a_node_is_highlighted_and_the_rest_faint():
    def program(x):
        return x.exp() + 1, x.sin().cos()

    svg = draw(program, ex.ones(1), to="cos").svg()
    assert WAY in svg
    assert 'opacity="0.45"' in svg


def test_a_drawing_is_painted_as_png(tmp_path):
    pytest.importorskip("matplotlib", reason="PNG files need matplotlib, the extra `plot`")
    drawing = draw(Reader(), [1, 2]).unfold()
    data = drawing.save(tmp_path / "graph.png").read_bytes()
    assert data.startswith(b"\x89PNG")
