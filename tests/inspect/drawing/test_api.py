"""`draw`: of modules, functions, tensors, graphs, programs."""

import pytest

import extempo as ex
from extempo import nn
from extempo.inspect import draw

from .models import Reader, titles


def test_a_module_is_run_and_its_parts_have_their_names():
    drawing = draw(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), ex.ones(4, 2)).unfold()
    assert titles(drawing.view) == ["input", "linear", "relu"]
    linear = drawing.diagram.item(drawing.view.boxes[1])
    assert [(p.name, p.shape) for p in linear.parameters] == [("0.weight", "(3, 2)"), ("0.bias", "(3)")]
    assert linear.values


def test_a_function_is_run_and_the_modules_it_closes_over_are_found():
    layer = nn.Linear(2, 3)

    def loss(x):
        return layer(x).sum()

    drawing = draw(loss, ex.ones(1, 2))
    assert drawing.diagram.root.detail == "loss"
    assert "layer: Linear" in [g.title for g in drawing.diagram.groups()]


def test_values_are_left_out_on_request():
    assert all(not item.values for item in draw(nn.ReLU(), ex.ones(2), values=False).diagram.items())


def test_of_tensors_the_history_is_drawn_with_names_where_the_model_is_known():
    model = nn.Linear(2, 1)
    (linear,) = draw(model(ex.ones(2)), model=model).diagram.ops()
    assert [p.name for p in linear.parameters] == ["constant", "weight", "bias"]
    assert linear.is_output


def test_several_results_and_ragged_ones_are_drawn_together():
    x = ex.ones(2, requires_grad=True)
    assert titles(draw({"a": x.exp(), "b": [x.sin()]}).view) == ["input", "exp", "sin"]
    assert titles(draw(nn.Embedding(5, 2)(ex.ragged([[1, 2], [3]]))).view) == ["embedding"]


def test_a_program_is_drawn_with_the_names_of_its_inputs():
    program = ex.program(nn.Linear(2, 3).eval(), ex.ones(4, 2))
    assert titles(draw(program).view) == ["input", "linear"]
    assert ex.inspect.draw(program.graph).text(80)


def test_where_nothing_was_recorded_the_drawing_says_so():
    drawing = draw(ex.ones(2) * 2)
    assert "nothing was recorded" in drawing.text(80)
    assert "nothing was recorded" in drawing.svg()


def test_a_title_stands_above():
    assert draw(nn.ReLU(), ex.ones(1), title="a < b").text(80).startswith("a < b: 1 op")


@pytest.mark.parametrize("what", [3, [1.0], nn.Linear])
def test_what_has_no_graph_is_refused(what):
    with pytest.raises(TypeError, match="draw: expected a module, a function, tensors"):
        draw(what)


def test_inputs_are_for_what_can_be_called():
    with pytest.raises(TypeError, match="inputs are for a module or function"):
        draw(ex.ones(1, requires_grad=True) * 2, "a title")


def test_loops_are_rolled_or_unrolled_and_nothing_else():
    with pytest.raises(ValueError, match="'rolled' or 'unrolled'"):
        draw(nn.ReLU(), ex.ones(1), loops="sideways")
    assert len(draw(Reader(), [1, 2, 3], loops="unrolled", depth=9).view.boxes) > 50


def test_a_loop_folds_into_one_line():
    text = draw(Reader(), list(range(10))).fold().text(80)
    assert "▸ embed, cell x 10" in text
    assert len(text.splitlines()) == 3


def test_drawing_leaves_the_model_without_hooks():
    model = Reader()
    draw(model, [1])
    assert all(module._call_hooks is None for module in model.modules())


def test_drawing_changes_neither_buffers_nor_the_random_stream():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5))
    ex.manual_seed(0)
    draw(model, ex.arange(8.0).reshape(4, 2))
    after = ex.rand(2)
    ex.manual_seed(0)
    assert after.tolist() == ex.rand(2).tolist()
    assert model[0].running_mean.tolist() == [0.0, 0.0]
