"""Layers come from a list, with checked numbers; the model is listed with what can be done to each part."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.studio_server.commands import RefusedCommand
from extempo.studio_server.layers import LAYERS, listed_layers, made_layer, structure_of


@pytest.mark.parametrize("kind", LAYERS)
def test_every_layer_of_the_list_runs_on_what_comes_in(kind):
    layer = made_layer({"kind": kind}, (4, 6))
    assert tuple(layer(ex.ones(4, 6)).shape) == (4, 6)


def test_sizes_are_those_that_were_asked_for():
    assert made_layer({"kind": "Linear", "out_features": 3}, (2, 5)).weight.shape == (3, 5)
    assert made_layer({"kind": "Dropout", "p": 0.25}, None).p == 0.25


@pytest.mark.parametrize(
    "described",
    [
        *({}, {"kind": "Module"}, {"kind": "__import__"}, {"kind": None}, {"kind": "Linear", "weight": 1}),
        *({"kind": "ReLU", "inplace": True}, {"kind": "Linear", "out_features": 0}),
        *({"kind": "Linear", "out_features": 10**9}, {"kind": "Linear", "out_features": 2.5}),
        *({"kind": "Linear", "out_features": True}, {"kind": "Dropout", "p": 2}, {"kind": "Dropout", "p": None}),
        {"kind": "Dropout", "p": "0.5"},
    ],
    ids=str,
)
def test_others_are_refused(described):
    with pytest.raises(RefusedCommand):
        made_layer(described, (2, 5))


def test_a_layer_that_needs_a_size_waits_until_one_is_known():
    with pytest.raises(RefusedCommand, match="captured"):
        made_layer({"kind": "Linear"}, None)


def test_the_list_tells_what_a_page_needs_to_ask():
    linear = next(layer for layer in listed_layers() if layer["kind"] == "Linear")
    assert linear["fields"][0] == {"name": "out_features", "type": "int", "default": None, "min": 1, "max": 65536}


def test_a_model_is_listed_with_what_can_be_done():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
            self.head = nn.Linear(4, 2)

    model = Net()
    model.head.requires_grad_(False)
    rows = {row["path"]: row for row in structure_of(model, ex.optim.SGD(model.parameters()))["modules"]}
    assert rows["body"]["container"]
    assert rows["body"]["length"] == 2
    assert rows["body.0"]["can"] == ["insert", "remove", "widen", "freeze", "replace"]
    assert rows["head"]["can"] == ["insert", "widen", "unfreeze", "replace"]
    assert rows["head"]["frozen"]
    assert rows[""]["can"] == ["freeze"]
    assert (rows["body.0"]["parent"], rows["body.0"]["position"]) == ("body", 0)
