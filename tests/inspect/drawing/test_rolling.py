"""Loops: found where turns are alike, and only there."""

import extempo as ex
from extempo import nn
from extempo.inspect import draw

from .models import Reader, Stack


def loops(drawing):
    return [(g.name, g.turns, g.period) for g in drawing.diagram.groups() if g.period]


def test_calls_of_modules_that_repeat_are_a_loop():
    assert loops(draw(Reader(), list(range(10)))) == [("embed, cell", 10, 2)]


def test_a_single_turn_is_no_loop():
    assert loops(draw(Reader(), [1])) == []


def test_modules_of_a_list_that_are_alike_roll_up_from_four_on():
    assert loops(draw(Stack(3), ex.ones(1, 3))) == []
    assert loops(draw(Stack(6), ex.ones(1, 3))) == [("blocks: Sequential, add", 6, 2)]


def test_ops_in_a_loop_of_the_user_roll_up():
    def program(x):
        for _ in range(5):
            x = x.exp().sin()
        return x

    assert loops(draw(program, ex.ones(1))) == [("exp, sin", 5, 2)]


def test_two_ops_of_one_expression_are_no_loop():
    assert loops(draw(lambda x, y: x.relu() + y.relu(), ex.ones(1), ex.ones(1))) == []


def test_nested_loops_roll_up_inside_one_another():
    def program(x):
        for _ in range(3):
            for _ in range(4):
                x = x.sin()
            x = x.exp()
        return x

    assert sorted(turns for _, turns, _ in loops(draw(program, ex.ones(1)))) == [3, 4, 4, 4]


def test_later_turns_know_their_likes_in_the_first():
    diagram = draw(Reader(), [1, 2, 3]).diagram
    (loop,) = [g for g in diagram.groups() if g.period]
    first, later = loop.members[0], loop.members[loop.period]
    assert diagram.twins[later][loop.number] == first
    for a, b in zip(diagram.inside(later), diagram.inside(first), strict=True):
        assert diagram.twins[a.number][loop.number] == b.number
        assert a.op == b.op


def test_layers_that_share_nothing_but_a_line_are_no_loop_on_the_tape():
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2), nn.Tanh())
    assert loops(draw(model(ex.ones(2)))) == []
