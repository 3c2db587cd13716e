"""What plans and batches made of ops."""

import pytest

import extempo as ex
from extempo.backends.selection import native
from extempo.inspect import draw
from extempo.inspect.drawing.runs import compiled_of

from .models import Reader


@pytest.fixture
def planned(always_planned):
    """A function that runs by a plan."""
    if native() is None:
        pytest.skip("plans need the native backend")

    @ex.compile
    def f(x, w):
        h = (x @ w).relu() * 2 + 1
        return (h * h).sum()

    x, w = ex.ones(8, 8), ex.ones(8, 8)
    for _ in range(4):
        f(x, w)
    return f, x, w


def test_a_compiled_function_says_what_was_fused(planned):
    f, x, w = planned
    drawing = draw(f, x, w)
    notes = {item.op: item.notes for item in drawing.diagram.ops()}
    assert notes["matmul"] == ["a kernel of its own"]
    assert notes["relu"] == ["fused into a kernel"]
    assert any("ops became" in note for note in drawing.diagram.notes)
    assert any(note.startswith("fused: relu, mul, add, mul") for note in drawing.diagram.notes)
    assert "fused into a kernel" in drawing.svg()


def test_a_compiled_function_without_a_plan_says_so():
    f = ex.compile(lambda x: x.exp())
    assert compiled_of(f) is not None
    assert draw(f, ex.ones(2)).diagram.notes == ["compiled, not planned yet: call it a few times first"]


def test_a_compiled_module_keeps_its_names():
    model = ex.compile(Reader())
    drawing = draw(model, [1, 2])
    assert "score: Linear" in drawing.groups()
    assert drawing.diagram.notes


def test_what_is_not_compiled_has_no_notes():
    assert draw(Reader(), [1, 2]).diagram.notes == []
    assert compiled_of(Reader()) is None


def test_a_batched_function_says_how_many_calls_ran_together():
    drawing = draw(ex.batch(Reader()), [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert drawing.diagram.notes[0].startswith("3 samples, ")
    said = [note for element in drawing.diagram.elements for note in element.notes]
    assert any(" in " in note and "batch" in note for note in said)


def test_ops_of_one_line_that_fared_differently_are_not_told_apart(always_planned):
    if native() is None:
        pytest.skip("plans need the native backend")

    @ex.compile
    def f(x):
        return (x.sum(0) * 2).sum() + x.exp().sum(1).sum()

    for _ in range(4):
        f(ex.ones(8, 8))
    notes = {tuple(item.notes) for item in draw(f, ex.ones(8, 8)).diagram.ops() if item.op == "sum"}
    assert len(notes) == 1
