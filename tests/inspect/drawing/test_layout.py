"""Layout: boxes do not overlap, arrows go down, and lines run beside boxes."""

import pytest

import extempo as ex
from extempo.inspect import draw
from extempo.inspect.drawing.layout import LONGEST, lay_out

from .models import Reader, Stack


def long_chain(n):
    """Ops of as many lines, of which the last one reads the first one's input."""
    lines = ["def program(x):", "    y = x", *["    y = y.exp()"] * n, "    return y + x"]
    around = {}
    exec("\n".join(lines), around)
    return draw(around["program"], ex.ones(1))


DRAWINGS = {
    "folded": lambda: draw(Reader(), [1, 2, 3]).fold(),
    "open": lambda: draw(Reader(), [1, 2, 3]).unfold(),
    "unrolled": lambda: draw(Reader(), [1, 2, 3]).unfold().unroll(),
    "stack": lambda: draw(Stack(5), ex.ones(2, 3)).unfold().unroll(),
    "tape": lambda: draw(Reader()([1, 2, 3]).sum()).unfold(),
}


def overlap(a, b):
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


@pytest.mark.parametrize("name", DRAWINGS)
def test_boxes_lie_in_their_frames_and_do_not_overlap(name):
    view = DRAWINGS[name]().view
    layout = lay_out(view)
    for frame in view.frames:
        around = layout.boxes[frame]
        children = [layout.boxes[c] for c in view.children(frame)]
        for i, box in enumerate(children):
            assert around.x <= box.x
            assert around.y <= box.y
            assert box.x + box.width <= around.x + around.width + 0.01
            assert box.y + box.height <= around.y + around.height + 0.01
            assert not any(overlap(box, other) for other in children[:i])


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_edge_arrives_and_no_line_passes_behind_a_box(name):
    view = DRAWINGS[name]().view
    layout = lay_out(view)
    arrived = {(s.source, s.target) for s in layout.segments if s.target != -1}
    assert arrived == {(e.source, e.target) for e in view.edges if not e.is_carried}
    straight = [s for s in layout.segments if abs(s.x0 - s.x1) < 0.5]
    for s in straight:
        for number in view.boxes:
            b = layout.boxes[number]
            inside = b.x < s.x0 < b.x + b.width and s.y0 < b.y + b.height - 0.01 and b.y + 0.01 < s.y1
            assert not inside, (s, b)
    assert all(s.y0 <= s.y1 + 0.01 for s in layout.segments)


def test_a_very_long_way_is_left_out_and_its_end_says_where_it_comes_from():
    drawing = long_chain(LONGEST + 5)
    layout = lay_out(drawing.view)
    (stub,) = layout.stubs
    assert drawing.diagram.elements[stub.source].title == "x"
    assert not lay_out(long_chain(5).view).stubs


def test_a_chain_of_frames_does_not_drift_to_a_side():
    layout = lay_out(draw(Stack(30), ex.ones(2, 3), loops="unrolled", depth=9).view)
    assert layout.width < 700


def test_an_empty_diagram_has_a_place_too():
    assert lay_out(draw(ex.ones(1) * 2).view).boxes
