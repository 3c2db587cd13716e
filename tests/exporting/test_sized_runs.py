"""Graphs in which values decide sizes: cut into pieces, checked in files, guarded while they run."""

from __future__ import annotations

import io

import pytest

import extempo as ex
from extempo import nn
from extempo.exporting.folding import fold_constants
from extempo.exporting.sized_runs import SizedRunner, found_sizes, is_in_order
from extempo.exporting.text import parse_program, program_text


def positive(x):
    return x[x > 0] + 1


def program():
    return ex.program(positive, ex.tensor([1.0, -1.0, 2.0]), dynamic={"x": {0: "n"}})


def test_a_graph_is_cut_behind_what_decides_a_size():
    made = program()
    assert found_sizes(made.graph) == {"found_0"}
    assert isinstance(made._runner, SizedRunner)
    assert [piece.sized is not None for piece in made._runner._pieces] == [True, False]
    assert made(ex.tensor([-1.0, 3.0])).tolist() == [4.0]


def test_equal_masks_decide_one_size():
    made = ex.program(lambda x: x[x > 0] * x[x > 0], ex.tensor([1.0, -1.0]), dynamic={"x": {0: "n"}})
    assert found_sizes(made.graph) == {"found_0"}


def test_a_size_that_is_used_before_it_is_known_is_no_program():
    made = program()
    assert is_in_order(made.graph)
    text = program_text(made)
    for old, new in [
        ("size=found_0", "size=n"),
        ("i64[found_0, 1]", "i64[found_1, 1]"),
        ("size=found_0", "size=found_0 + 1"),
        ("size=found_0", "size=3"),
    ]:
        assert old in text
        with pytest.raises(ex.serialization.FileFormatError):
            parse_program(text.replace(old, new), made.weights)


def test_a_decision_by_a_size_that_values_decide_is_checked_while_it_runs():
    def fn(x):
        y = x[x > 0]
        return y.sum() if y.shape[0] > 2 else y.sum() * 100

    made = ex.program(fn, ex.tensor([1.0, 2.0, 3.0, 4.0]), dynamic={"x": {0: "n"}}, check=False)
    assert made(ex.ones(5)).item() == 5.0
    with pytest.raises(ex.errors.ShapeError, match=r"found_0 > 2, which the code decided at .*found_0 = 1"):
        made(ex.tensor([1.0, -1.0]))


def test_a_program_inside_another_keeps_its_sizes():
    inner = program()
    outer = ex.program(lambda x: inner(x * 2).sum(), ex.tensor([1.0, -1.0]), dynamic={"x": {0: "m"}})
    file = io.BytesIO()
    outer.save(file)
    file.seek(0)
    assert ex.load_program(file)(ex.tensor([1.0, -5.0, 2.0])).item() == 8.0


class Chosen(nn.Module):
    """Rows that a layer likes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 32)

    def forward(self, x):
        y = self.layer(x)
        return y[y.sum(1) > 0].relu()


def test_such_a_program_can_be_edited_quantised_and_folded():
    model, x = Chosen().eval(), ex.randn(7, 16)
    made = ex.program(model, ex.randn(5, 16), dynamic={"x": {0: "n"}})
    with made.edit() as graph:
        for node in graph.find("relu"):
            graph.replace(node, graph.call(ex.tanh, *node.inputs))
    y = model.layer(x)
    expected = y[y.sum(1) > 0].tanh()
    assert ex.allclose(made(x), expected)
    assert ex.allclose(fold_constants(made)(x), expected)
    assert made.quantize("int8").report.n_stored == 1
    assert made.quantize("int8", dynamic=True).report.n_dynamic == 1
