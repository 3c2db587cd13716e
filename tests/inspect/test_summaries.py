"""`summary`: the layers, their outputs and parameters, each counted once."""

import json

import pytest

import extempo as ex
from extempo import nn
from extempo.inspect import summary


def test_parameters_that_two_layers_share_are_counted_once():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    report = summary(model)
    assert report.n_parameters == 9 + 3 + 3
    assert [layer["shared"] for layer in report.layers] == [False, False, True]
    assert str(report).splitlines()[3].endswith("shared")


def test_frozen_layers_are_marked_and_not_counted_as_trainable():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    report = summary(model)
    assert (report.n_parameters, report.n_trainable) == (9, 3)
    assert str(report).splitlines()[2].endswith("6 frozen")


def test_a_layer_of_which_a_part_is_frozen_says_how_much():
    layer = nn.Linear(2, 3)
    layer.bias.requires_grad_(False)
    assert str(summary(layer)).splitlines()[1].endswith("9, 3 frozen")


def test_a_module_that_calls_itself_is_counted_each_time():
    class Folded(nn.Module):
        def forward(self, tree):
            return ex.ones(1) if isinstance(tree, int) else self(tree[0]) + self(tree[1])

    assert "Folded x5" in str(summary(Folded(), ((1, 2), 3)))


def test_all_outputs_of_a_layer_are_told():
    text = " ".join(str(summary(nn.LSTM(4, 8), ex.ones(5, 3, 4))).split())
    assert "(5, 3, 8), (1, 3, 8), (1, 3, 8)" in text


def test_what_is_no_module_is_refused():
    with pytest.raises(TypeError, match="summary: expected a module, got list"):
        summary([1])


def test_a_layer_that_was_not_called_says_so_and_one_in_a_loop_how_often():
    class Looping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turn, self.idle = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.turn(self.turn(self.turn(x)))

    lines = str(summary(Looping(), ex.ones(2))).splitlines()
    assert "x3" in lines[2]
    assert "not called" in lines[3]


def test_buffers_are_told_apart_from_parameters():
    assert "9 numbers in buffers" in str(summary(nn.BatchNorm1d(4)))


def test_without_inputs_there_is_no_column_of_outputs():
    assert str(summary(nn.Linear(2, 1))).splitlines()[0].split() == ["layer", "parameters"]


def test_json_and_html_have_the_totals():
    report = summary(nn.Sequential(nn.Linear(2, 3)), ex.ones(1, 2))
    assert json.loads(report.to_json())["parameters"] == 9
    assert "9 parameters" in report._repr_html_()


def test_deep_models_fit_80_columns():
    model: nn.Module = nn.Linear(1, 1)
    for _ in range(30):
        model = nn.Sequential(model)
    assert max(map(len, str(summary(model, ex.ones(1))).splitlines())) <= 80
