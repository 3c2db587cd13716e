"""View: what folding and rolling up leave to be seen."""

import extempo as ex
from extempo.inspect import draw
from extempo.inspect.drawing.view import MOST_BOXES, View, opened_to

from .models import Broken, Reader, titles


def test_folded_groups_are_boxes_and_open_ones_frames():
    drawing = draw(Reader(), [1, 2, 3])
    folded, open_ = drawing.fold().view, drawing.unfold().view
    assert titles(folded) == ["embed, cell x 3", "score: Linear"]
    assert len(open_.boxes) == 18
    assert len(open_.frames) == 5  # the root, the loop, embed, cell, score


def test_a_value_that_a_turn_hands_to_the_next_is_carried():
    drawing = draw(Reader(), [1, 2, 3])
    (own,) = [e for e in drawing.fold().view.edges if e.is_carried]
    assert own.source == own.target
    inside = [e for e in drawing.unfold().view.edges if e.is_carried]
    names = {(drawing.diagram.item(e.source).op, drawing.diagram.item(e.target).op) for e in inside}
    assert names == {("add", "linear"), ("add", "sub")}


def test_nothing_is_carried_once_the_loop_is_unrolled():
    view = draw(Reader(), [1, 2, 3]).unfold().unroll().view
    assert not [e for e in view.edges if e.is_carried]
    assert len(view.boxes) == 3 * 17 + 1


def test_edges_run_in_the_order_of_boxes():
    view = draw(Reader(), [1, 2, 3]).unfold().view
    place = {box: i for i, box in enumerate(view.boxes)}
    assert all(place[e.source] < place[e.target] for e in view.edges if not e.is_carried)


def test_as_much_is_unfolded_as_fits():
    diagram = draw(Reader(), list(range(10))).diagram
    assert len(View(diagram, opened_to(diagram, None)).boxes) <= MOST_BOXES
    assert opened_to(diagram, 0) == {0}
    assert len(View(diagram, opened_to(diagram, 9)).boxes) == 18


def test_what_failed_is_never_hidden():
    try:
        draw(Broken(), ex.ones(3, 4))
    except ex.errors.ShapeError as error:
        view = draw(error).view
    assert any(getattr(view.diagram.elements[box], "kind", "") == "error" for box in view.boxes)


def test_an_edge_is_cut_where_gradients_come_and_do_not_go_on():
    def cut(x):
        kept = x.exp()
        return kept.detach() * 2 + kept

    drawing = ex.inspect.draw(cut, ex.ones(3, requires_grad=True))
    ops = {edge.target: edge.is_cut for edge in drawing.view.edges}
    exp, times, total = (item.number for item in drawing.diagram.ops())
    assert ops == {exp: False, times: True, total: False}
    assert drawing.dot().count("style=dotted") == 1
    assert drawing.mermaid().count("-.->") == 1
    assert drawing.svg().count('stroke-dasharray="2 4"') == 1
