"""The page: it needs nothing but itself, and has all that is known."""

import json
import re

import extempo as ex
from extempo import nn
from extempo.inspect import draw
from extempo.inspect.drawing.html_writer import data_of

from .models import Reader


def data_in(page):
    return json.loads(re.search(r"startViewer\((\{.*\})\);", page)[1])


def test_the_page_loads_nothing_from_elsewhere():
    page = draw(Reader(), [1, 2]).html()
    assert not re.search(r"https?:|@import|<link|src=", page)


def test_the_page_has_ops_shapes_values_lines_and_code():
    data = data_in(draw(Reader(), [1, 2]).html())
    linear = next(e for e in data["elements"] if e.get("op") == "linear")
    assert linear["s"] == ["(12)"]
    assert linear["v"]
    lines = dict(data["code"][linear["w"]])
    assert "self.cell(self.embed(word), state)" in lines[int(linear["w"].rpartition(":")[2])]
    assert len(lines) == 9


def test_an_end_of_script_in_a_text_does_not_end_the_script():
    page = draw(nn.ReLU(), ex.ones(1), title="</script><b>").html()
    assert page.count("</script>") == 1
    assert "&lt;/script&gt;" in page


def test_what_is_open_and_chosen_is_part_of_the_data():
    drawing = draw(Reader(), [1, 2], to="score")
    data = data_of(drawing.diagram, {0, 1}, {2}, True, {3, 4})
    assert (data["opened"], data["unrolled"], data["gradients"], data["way"]) == ([0, 1], [2], True, [3, 4])
