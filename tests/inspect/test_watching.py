"""ex.watch: a line for each node, chosen by op, module, shape and phase."""

from __future__ import annotations

import io

import pytest

import extempo as ex
from extempo import nn


def lines(run, **options):
    file = io.StringIO()
    with ex.watch(file=file, **options):
        run()
    return file.getvalue().splitlines()


def test_each_node_has_a_line_with_values_module_and_place():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    told = lines(lambda: net(ex.ones(4, 2)).sum().backward())
    ops = [line.split("  ")[0] for line in told]
    assert ops[-6:] == ["linear", "tanh", "sum", "sum backward", "tanh backward", "linear backward"]
    assert "float32 (4, 3)" in told[-6]
    assert " 0 test_watching.py:" in told[-6]
    assert " 1 test_watching.py:" in told[-2]


def test_lines_are_chosen_by_op_module_shape_and_phase():
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 5))
    x = ex.ones(4, 2)
    assert len(lines(lambda: net(x), module="1")) == 1
    assert len(lines(lambda: net(x), shape=(None, 3))) == 1
    assert len(lines(lambda: net(x).sum().backward(), phase="backward", op="lin*")) == 2
    assert lines(lambda: net(x), shape=7) == []


def test_an_op_that_raises_is_told_of():
    def run():
        with pytest.raises(ex.errors.ShapeError):
            ex.ones(2) + ex.ones(3)

    assert "raised ShapeError" in lines(run, op="add")[0]


def test_after_the_block_nothing_is_printed(capsys):
    with ex.watch(op="exp"):
        ex.ones(2).exp()
    ex.ones(2).exp()
    assert capsys.readouterr().out.count("exp") == 1
