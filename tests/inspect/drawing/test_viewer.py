"""`viewer.js` beside Python: the same boxes, edges and places. Runs where Node.js is installed."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import extempo as ex
from extempo.inspect import draw
from extempo.inspect import drawing as package
from extempo.inspect.drawing.html_writer import data_of
from extempo.inspect.drawing.layout import lay_out

from .models import Reader, Stack

NODE = shutil.which("node")
SCRIPT = Path(package.__file__).with_name("viewer.js")
ASKING = """
const D = JSON.parse(require("fs").readFileSync(0, "utf8"));
const view = makeView(D, new Set(D.opened), new Set(D.unrolled)), layout = layOut(D, view, 0);
const boxes = [...layout.boxes].map(([n, b]) => [n, b.x, b.y, b.width, b.height]);
const edges = view.edges.map((e) => [e.source, e.target, e.item, e.carried]);
const segments = layout.segments.map((s) => [s.source, s.target, s.x0, s.y0, s.x1, s.y1]);
console.log(JSON.stringify({ boxes, edges, segments }));
"""


def in_node(drawing):
    data = json.dumps(data_of(drawing.diagram, drawing._opened, drawing._unrolled))
    code = SCRIPT.read_text() + ASKING
    run = subprocess.run([NODE, "-e", code], input=data, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(run.stdout)


@pytest.mark.skipif(NODE is None, reason="needs Node.js")
@pytest.mark.parametrize(
    "make",
    [
        lambda: draw(Reader(), [1, 2, 3]).fold(),
        lambda: draw(Reader(), [1, 2, 3]).unfold(),
        lambda: draw(Reader(), [1, 2, 3]).unfold().unroll(),
        lambda: draw(Stack(5), ex.ones(2, 3)).unfold().unroll(),
        lambda: draw(Stack(60), ex.ones(2, 3)).unfold().unroll(),
    ],
)
def test_the_page_shows_what_python_draws(make):
    drawing = make()
    view = drawing.view
    layout = lay_out(view)
    shown = in_node(drawing)
    assert shown["edges"] == [[e.source, e.target, e.item, e.is_carried] for e in view.edges]
    for (n, *place), (number, box) in zip(shown["boxes"], layout.boxes.items(), strict=True):
        assert n == number
        assert place == pytest.approx(box[:4], abs=0.01)
    for found, segment in zip(shown["segments"], layout.segments, strict=True):
        assert found == pytest.approx(list(segment), abs=0.01)


def test_the_script_has_the_names_of_its_twins():
    code = SCRIPT.read_text()
    assert all(name in code for name in ("makeView", "layOut", "layout.py", "view.py"))
