"""Layers in plain lists and dicts."""

from __future__ import annotations

import warnings

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.errors import ArgumentError
from extempo.nn.hidden_layers import hidden_parameters


class Holding(nn.Module):
    def __init__(self, held, **parts):
        super().__init__()
        self.held = held
        for name, part in parts.items():
            setattr(self, name, part)


@pytest.mark.parametrize(
    ("held", "name", "advice"),
    [
        ([nn.Linear(2, 1)], "held.0.weight", "held is a plain list: make it nn.ModuleList(...)"),
        ((nn.Linear(2, 1),), "held.0.weight", "held is a plain tuple: make it nn.ModuleList(...)"),
        ({"a": nn.Linear(2, 1)}, "held.a.weight", "held is a plain dict: make it nn.ModuleDict(...)"),
        ([nn.Parameter(ex.ones(2))], "held.0", "held is a plain list: make it nn.ParameterList(...)"),
        ({"w": nn.Parameter(ex.ones(2))}, "held.w", "held is a plain dict: make it nn.ParameterDict(...)"),
        ([[nn.Linear(2, 1)]], "held.0.0.weight", "held is a plain list: make it nn.ModuleList(...)"),
    ],
)
def test_what_a_plain_container_hides_is_named_with_its_cure(held, name, advice):
    found = next(hidden_parameters(Holding(held)))
    assert found[0] == name
    assert found[1].startswith(advice)


def test_what_is_registered_elsewhere_and_what_is_no_layer_is_not_hidden():
    layer = nn.Linear(2, 1)
    assert list(hidden_parameters(Holding([layer], own=layer))) == []
    assert list(hidden_parameters(Holding([1, "a", ex.ones(2), None, nn.ReLU()]))) == []
    assert list(hidden_parameters(Holding(nn.ModuleList([layer])))) == []


def test_a_model_that_hides_all_its_parameters_says_so_at_the_users_line():
    model = Holding([nn.Linear(2, 1)])
    with pytest.warns(UserWarning, match=r"Holding has none of its own.*held\.0\.weight.*nn\.ModuleList") as caught:
        assert list(model.parameters()) == []
    assert caught[0].filename == __file__
    with (
        pytest.warns(UserWarning, match="does not see") as caught,
        pytest.raises(ArgumentError, match=r"params is empty.*nn\.ModuleList"),
    ):
        optim.SGD(model.parameters(), lr=0.1)
    assert caught[0].filename == __file__


def test_a_model_without_any_parameters_is_nothing_to_warn_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(nn.Sequential(nn.ReLU(), nn.Flatten()).parameters()) == []


def test_classes_of_layers_and_containers_of_themselves_are_looked_through():
    settings = {"activation_fn": nn.ReLU, "layer": nn.Linear}
    settings["all"] = settings
    model = Holding(settings)
    assert list(hidden_parameters(model)) == []
    assert list(model.parameters()) == []
