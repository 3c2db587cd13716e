"""What a model has: its modules, weights by name, and that it stays as it was."""

from __future__ import annotations

import extempo as ex
from extempo import nn
from extempo.exporting.model_state import modules_of, state_of, unchanged


def test_modules_are_found_behind_methods_and_closures():
    layer = nn.Linear(2, 2)
    assert dict(modules_of(layer)) == {"": layer}
    assert dict(modules_of(layer.forward)) == {"": layer}
    assert dict(modules_of(lambda x: layer(x))) == {"layer.": layer}
    assert dict(modules_of(ex.exp)) == {}


def test_a_tensor_with_several_names_has_its_first():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    assert [name for name, _ in state_of({"": model})] == ["0.weight", "0.bias", "1.bias"]


def test_attributes_and_buffers_are_put_back():
    model = nn.BatchNorm1d(2)
    model.note = 1
    mean = model.running_mean
    with unchanged(model):
        model(ex.rand(4, 2))
        model.note, model.other = 2, 3
        model.running_mean = ex.ones(2)
    assert model.running_mean is mean
    assert model.running_mean.tolist() == [0.0, 0.0]
    assert model.num_batches_tracked.item() == 0
    assert model.note == 1
    assert not hasattr(model, "other")
