"""`trace` tells what every module did, in order, and leaves the model as it was."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError
from extempo.inspect import glimpse, trace
from extempo.inspect.tracing import MOST_ROWS


class Reader(nn.Module):
    """A loop over words, as many steps as there are."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 3)
        self.cell = nn.GRUCell(3, 4)
        self.score = nn.Linear(4, 2)

    def forward(self, words):
        state = ex.zeros(4)
        for word in words:
            state = self.cell(self.embed(word), state)
        return self.score(state)


class Spoil(nn.Module):
    """Gives what it is told to instead of its input."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, x):
        return x * self.value


@pytest.mark.parametrize("n_words", [1, 3])
def test_each_step_of_a_loop_is_a_step_of_the_trace(n_words):
    steps = trace(Reader(), list(range(n_words))).steps
    turns = [(name, call) for call in range(1, n_words + 1) for name in ("embed", "cell")]
    assert [(step.name, step.call) for step in steps] == [("", 1), *turns, ("score", 1)]


def test_a_step_has_types_parameters_range_memory_and_depth():
    layer = nn.Linear(2, 3)
    with ex.no_grad():
        layer.weight.fill_(1.0)
        layer.bias.copy_(ex.tensor([0.0, 1.0, -5.0]))
    outer, inner = trace(nn.Sequential(layer), ex.ones(4, 2)).steps
    assert (outer.depth, inner.depth, inner.kind, inner.name) == (0, 1, "Linear", "0")
    assert (inner.inputs, inner.outputs) == (["float32 (4, 2)"], ["float32 (4, 3)"])
    assert (inner.n_parameters, inner.low, inner.high, inner.n_bytes) == (9, -3.0, 3.0, 48)
    assert inner.glimpse == "2 3 -3 2 3 -3 ..."
    assert (inner.n_nan, inner.n_inf, inner.error) == (0, 0, "")


def test_the_time_of_a_module_covers_its_parts_but_not_the_looking():
    report = trace(Reader(), [1, 2, 3])
    assert report[""].seconds >= sum(step.seconds for step in report if step.name) > 0


def test_the_output_is_the_models_own():
    model = Reader().eval()
    with ex.no_grad():
        assert trace(model, [1, 2]).output.tolist() == model([1, 2]).tolist()


def test_nothing_of_the_model_stays_changed():
    model = Reader()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trace(model, [1, 2])
    assert all(module._call_hooks is None for module in model.modules())
    assert all(p.grad is None for p in model.parameters())
    assert all(ex.equal(before[name], value) for name, value in model.state_dict().items())


def test_an_error_keeps_its_kind_and_notes_the_way_up_to_it():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(ShapeError) as caught:
        trace(model, ex.ones(1, 2))
    note = caught.value.__notes__[0]
    rows = note.splitlines()
    assert [line.split(":")[0].split()[0] for line in rows[2:]] == ["Sequential", "0", "1", "2"]
    assert ["raised" in line for line in rows[2:]] == [True, False, False, True]
    assert all(module._call_hooks is None for module in model.modules())


def test_hooks_that_were_there_before_stay():
    layer, seen = nn.ReLU(), []
    layer.register_forward_hook(lambda module, args, output: seen.append(output.item()))
    trace(layer, ex.tensor(3.0))
    layer(ex.tensor(4.0))
    assert seen == [3.0, 4.0]


def test_a_module_that_gives_none_has_not_raised():
    class Silent(nn.Module):
        def forward(self, x):
            return None

    try:
        raise ValueError
    except ValueError:  # the error that is being handled is not the module's
        assert trace(Silent(), ex.ones(1))[0].error == ""


@pytest.mark.parametrize(("value", "counts"), [(math.nan, (2, 0)), (math.inf, (0, 2))])
def test_the_first_module_that_spoils_is_named_not_one_that_got_it_later(value, counts):
    inner = nn.Sequential(nn.Sequential(nn.ReLU()))
    report = trace(nn.Sequential(nn.Identity(), Spoil(value), inner), ex.ones(2))
    assert report.first_bad.name == "1"
    assert (report.first_bad.n_nan, report.first_bad.n_inf) == counts
    assert "first not finite: 1: Spoil" in str(report)


def test_a_part_that_spoils_is_named_rather_than_what_holds_it():
    assert trace(nn.Sequential(nn.Sequential(Spoil(math.nan))), ex.ones(2)).first_bad.name == "0.0"


def test_a_healthy_trace_names_nobody():
    report = trace(nn.Sequential(nn.ReLU()), ex.ones(2))
    assert report.first_bad is None
    assert "not finite" not in str(report)


class Broken(nn.Module):
    """A layer whose bias has gone wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        with ex.no_grad():
            self.layer.bias[0] = math.nan

    def forward(self, x):
        return self.layer(x)


@pytest.mark.parametrize(
    ("model", "x", "said"),
    [
        (nn.Sequential(nn.ReLU()), ex.tensor([math.nan, 1.0]), "0: ReLU gives 1 nan; its input has 1 nan already"),
        (Broken(), ex.ones(2), "layer: Linear gives 1 nan; its parameter bias has 1 nan"),
        (nn.Sequential(Spoil(math.inf)), ex.ones(3), "0: Spoil gives 3 inf; all that it was given is finite"),
    ],
)
def test_where_the_first_nan_comes_from_is_told(model, x, said):
    report = trace(model, x)
    assert f"first not finite: {said}" in str(report)
    assert said in report._repr_html_()


def test_integers_and_ragged_tensors_are_told_by_their_types():
    ragged = ex.ragged([[1, 2, 3], [4]])
    (step,) = trace(nn.Embedding(5, 2), ragged).steps
    assert step.inputs == ["int64 (2, *)"]
    assert step.outputs == ["float32 (2, *, 2)"]
    assert step.n_bytes == 4 * 2 * 4


def test_keyword_arguments_and_several_outputs_are_seen():
    report = trace(nn.LSTM(2, 3), ex.ones(5, 1, 2), hx=(ex.zeros(1, 1, 3), ex.zeros(1, 1, 3)))
    assert len(report[0].inputs) == 3
    assert len(report[0].outputs) == 3


def test_json_is_json_also_for_what_is_not_finite():
    report = json.loads(trace(nn.Sequential(Spoil(math.nan)), ex.ones(2)).to_json())
    assert report["model"] == "Sequential"
    assert [step["low"] for step in report["steps"]] == [None, None]


def test_text_fits_80_columns_and_html_has_every_value():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.LayerNorm(1024)) for _ in range(2)])
    report = trace(model, ex.ones(16, 1024))
    assert max(map(len, str(report).splitlines())) <= 80
    html = report._repr_html_()
    assert html.count("<tr>") == len(report) + 1
    assert report[1].glimpse in html


class Folded(nn.Module):
    """Calls itself for each part of a nested tuple."""

    def forward(self, tree):
        return ex.tensor(float(tree)) if isinstance(tree, int) else self(tree[0]) + self(tree[1])


def test_calls_of_a_module_that_calls_itself_are_numbered_as_they_begin():
    steps = trace(Folded(), ((1, 2), 3)).steps
    assert [(step.call, step.depth) for step in steps] == [(1, 0), (2, 1), (3, 2), (4, 2), (5, 1)]
    assert [step.inputs for step in steps] == [["((1, 2), 3)"], ["(1, 2)"], ["1"], ["2"], ["3"]]


def test_looking_changes_neither_running_means_nor_the_random_stream():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5))
    before, draws = model.state_dict(), ex.get_rng_state()
    before = {name: value.clone() for name, value in before.items()}
    trace(model, ex.tensor([[1.0, 2.0], [3.0, 5.0]]))
    assert all(ex.equal(before[name], value) for name, value in model.state_dict().items())
    assert ex.equal(ex.get_rng_state(), draws)


def test_a_buffer_that_forward_replaces_is_put_back():
    class Remembering(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", ex.zeros(2))

        def forward(self, x):
            self.last = x + self.last
            return self.last

    model = Remembering()
    held = model.last
    assert trace(model, ex.ones(2)).output.tolist() == [1.0, 1.0]
    assert model.last is held
    assert model.last.tolist() == [0.0, 0.0]


def test_a_lazy_layer_works_after_it_was_looked_into():
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    trace(model, ex.ones(4, 2))
    assert model(ex.ones(4, 2)).shape == (4, 3)
    assert model[1].running_mean.shape == (3,)


@pytest.mark.parametrize(("given", "said"), [(len, "builtin_function"), (nn.Linear, "the class Linear"), (3, "int")])
def test_what_is_no_module_is_refused_by_name(given, said):
    with pytest.raises(TypeError, match=f"trace: expected a module, got {said}"):
        trace(given, ex.ones(2))


def test_arrays_are_told_by_their_types():
    (step,) = trace(nn.Linear(2, 3), np.ones((4, 2), np.float32)).steps
    assert step.inputs == ["numpy float32 (4, 2)"]


def test_tensors_in_a_dataclass_are_seen():
    @dataclass
    class Result:
        logits: ex.Tensor
        parts: list[ex.Tensor]

    class Model(nn.Module):
        def forward(self, x):
            return Result(x, [x.sum()])

    assert trace(Model(), ex.ones(2))[0].outputs == ["float32 (2)", "float32 ()"]


def test_shapes_are_never_cut_and_names_only_when_they_must():
    report = trace(nn.LSTM(4, 8, num_layers=2), ex.ones(123, 45, 4))
    words = " ".join(str(report).split())
    assert "LSTM (123, 45, 4) (123, 45, 8)," in words
    assert words.count("(2, 45, 8)") == 2
    assert "…" not in words


@pytest.mark.parametrize("n_words", [10, 500])
def test_a_very_long_way_is_printed_in_part_and_says_so(n_words):
    report = trace(Reader(), [1] * n_words)
    lines = str(report).splitlines()
    n_calls = 2 * n_words + 2
    assert lines[0] == f"Reader: {n_calls:,} calls"
    left_out = max(0, n_calls - MOST_ROWS)
    assert (f"{left_out:,} calls are left out" in str(report)) == (left_out > 0)
    assert report._repr_html_().count("<tr>") == min(n_calls, MOST_ROWS) + 1
    assert any(line.strip().startswith("score: Linear") for line in lines)
    assert (
        len(report.table.rows)
        == report.html().count("<tr>") - 1
        == len(json.loads(report.to_json())["steps"])
        == n_calls
    )


def test_one_call_is_one_call():
    assert str(trace(nn.ReLU(), ex.ones(1))).startswith("ReLU: 1 call\n")


def test_an_interrupt_leaves_no_hooks_behind():
    class Interrupted(nn.Module):
        def forward(self, x):
            raise KeyboardInterrupt

    model = nn.Sequential(nn.ReLU(), Interrupted())
    with pytest.raises(KeyboardInterrupt):
        trace(model, ex.ones(1))
    assert all(module._call_hooks is None for module in model.modules())


def test_a_module_is_found_by_name_and_a_wrong_name_lists_the_right_ones():
    report = trace(Reader(), [1])
    assert report["cell"].kind == "GRUCell"
    with pytest.raises(KeyError, match="embed"):
        report["sell"]


def test_a_compiled_model_is_traced_like_any_other():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    names = [step.name for step in trace(ex.compile(model), ex.ones(1, 2)) if step.kind in ("Linear", "ReLU")]
    assert [name.rsplit(".", 1)[-1] for name in names] == ["0", "1"]


def test_a_glimpse_shows_the_first_values_and_whether_there_are_more():
    assert glimpse(ex.tensor([1.0, 0.5])) == "1 0.5"
    assert glimpse(ex.arange(9), 2) == "0 1 ..."
    assert glimpse(ex.ragged([[7], [8, 9]])) == "7 8 9"
    assert glimpse(ex.zeros(0)) == ""


def test_a_model_that_was_looked_into_still_runs_in_batches_of_cells():
    model = Reader()
    trace(model, [1, 2])
    model.cell.register_forward_hook(lambda module, args, output: None).remove()
    batched = ex.batch(model)
    batched([[1, 2], [3], [4, 5, 6]])
    told = str(batched.explain())
    assert "GRUCell" in told
    assert "Embedding" in told


def test_children_of_a_list_have_its_name():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])
            self.tail = nn.Sequential(nn.Tanh())

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.tail(x)

    text = str(trace(Stack(), ex.ones(1, 2)))
    assert "  blocks.0: Linear" in text
    assert "  blocks.1: ReLU" in text
    assert "    0: Tanh" in text


def test_a_first_trace_runs_once_before_on_copies_and_later_ones_do_not():
    seen = []

    class Model(nn.Module):
        def forward(self, x):
            seen.append(x.add_(1).item())
            return x

    model, x = Model(), ex.tensor(1.0)
    assert trace(model, x)[0].low == 2.0
    assert trace(model, x)[0].low == 3.0
    assert seen == [2.0, 2.0, 3.0]


def test_an_input_that_can_be_read_once_is_read_by_the_trace_alone():
    class Model(nn.Module):
        def forward(self, numbers):
            return ex.tensor(sum(numbers))

    assert trace(Model(), iter([1.0, 2.0]))[0].low == 3.0
