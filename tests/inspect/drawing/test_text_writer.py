"""Text: lanes show what is used where, and lines fit."""

import pytest

import extempo as ex
from extempo import nn
from extempo.inspect import draw

from .models import Reader


def test_lanes_join_where_values_are_used():
    text = draw(lambda x: x.exp() + x.sin(), ex.ones(2)).text(60)
    assert text.splitlines() == [
        "graph: 3 ops",
        "○    x    (2)",
        "├─●  exp  (2)",
        "● │  sin  (2)",
        "●─╯  add  (2)",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("how", ["fold", "unfold", "unroll"])
def test_no_line_is_longer_than_the_terminal_is_wide(width, how):
    drawing = getattr(draw(Reader(), [1, 2, 3]), how)()
    assert max(map(len, drawing.text(width).splitlines())) <= width


def test_many_lanes_are_left_out():
    def program(x):
        parts = [x + i for i in range(30)]
        return ex.stack(parts).sum()

    text = draw(program, ex.ones(1), loops="unrolled", depth=9).text(80)
    assert "│" not in text


def test_the_way_is_marked():
    text = draw(lambda x: (x.exp(), x.sin()), ex.ones(1), to="sin").text(60)
    assert "* sin" in text
    assert "* exp" not in text


def test_a_loop_says_that_it_hands_something_on():
    assert "↺" in draw(Reader(), [1, 2, 3]).fold().text(80)


def test_a_folded_module_has_the_shape_of_what_leaves_it():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU())  # which updates its statistics last
    text = draw(model, ex.ones(4, 3)).fold().text(80)
    assert [line.rpartition("  ")[2] for line in text.splitlines()[1:]] == ["(4, 3)", "(4, 3) +2", "(4, 3)"]
