"""Optimizers follow models that change: state moves along bit for bit, the gone is dropped, the new joins."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import extempo as ex
from extempo import nn, optim
from extempo.errors import ArgumentError, IndexRangeError, ShapeError
from extempo.optim import remapping

MOMENTS = {
    optim.SGD: ({"momentum": 0.9}, ["momentum_buffer"]),
    optim.Adam: ({"amsgrad": True}, ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"]),
    optim.Adamax: ({}, ["exp_avg", "exp_inf"]),
    optim.Adagrad: ({"initial_accumulator_value": 0.5}, ["sum"]),
    optim.RMSprop: ({"centered": True, "momentum": 0.5}, ["square_avg", "grad_avg", "momentum_buffer"]),
    optim.Rprop: ({"lr": 0.25}, ["prev", "step_size"]),
}
START = {"sum": 0.5, "step_size": 0.25}


def trained(cls, options, n_steps=3):
    params = [ex.randn(4, 3).requires_grad_(), ex.randn(4).requires_grad_()]
    optimizer = cls(params, **options)
    for _ in range(n_steps):
        for p in params:
            p.grad = ex.randn(*p.shape)
        optimizer.step()
    return optimizer, params


@pytest.mark.parametrize("cls", MOMENTS, ids=lambda cls: cls.__name__)
def test_moments_of_kept_rows_stay_bit_identical_and_new_ones_start_anew(cls):
    options, names = MOMENTS[cls]
    optimizer, (w, b) = trained(cls, options)
    old = {name: optimizer.state[w][name].numpy().copy() for name in names}
    step = optimizer.state[w].get("step")
    new = ex.randn(5, 2).requires_grad_()
    optimizer.remap({w: (new, ([3, -1, 0, 1, -1], [2, 0]))})
    assert w not in optimizer.state
    for name in names:
        found = optimizer.state[new][name].numpy()
        assert found[[0, 2, 3]].tobytes() == old[name][[3, 0, 1]][:, [2, 0]].tobytes()
        assert (found[[1, 4]] == START.get(name, 0.0)).all()
    if step is not None:
        assert ex.equal(optimizer.state[new]["step"], step)
    assert optimizer.param_groups[0]["params"][0] is new
    new.grad, b.grad = ex.randn(5, 2), ex.randn(4)
    optimizer.step()


def test_an_unchanged_replacement_keeps_its_state():
    optimizer, (w, _) = trained(optim.Adam, {})
    moments = optimizer.state[w]["exp_avg"].clone()
    new = w.detach().clone().requires_grad_()
    optimizer.remap({w: new})
    assert ex.equal(optimizer.state[new]["exp_avg"], moments)


def test_training_goes_on_after_a_remap_as_if_the_rows_had_always_been_alone():
    options = {"lr": 0.1}
    ex.manual_seed(0)
    optimizer, (w, b) = trained(optim.Adam, options)
    ex.manual_seed(0)
    other, (v, c) = trained(optim.Adam, options)
    new = w.detach()[:2].clone().requires_grad_()
    optimizer.remap({w: (new, ([0, 1], None)), b: None})
    g = ex.randn(4, 3)
    new.grad, v.grad, c.grad = g[:2].clone(), g, ex.randn(4)
    optimizer.step()
    other.step()
    assert ex.equal(new.detach(), v.detach()[:2])


def test_a_refused_remap_changes_nothing():
    optimizer, (w, b) = trained(optim.Adam, {})
    moments = optimizer.state[w]["exp_avg"].clone()
    new = ex.randn(5, 3).requires_grad_()
    for changes, error in [
        ({w: (new, ([0, 1], None))}, ShapeError),
        ({w: (new, ([0, 1, 2, 3, 9], None))}, IndexRangeError),
        ({b: None, new: None}, ShapeError),
        ({w: b}, ShapeError),
        ({w: (new, (None, None, [0]))}, ShapeError),
    ]:
        with pytest.raises(error):
            optimizer.remap(changes)
        assert ex.equal(optimizer.state[w]["exp_avg"], moments)
        assert [id(p) for p in optimizer.param_groups[0]["params"]] == [id(w), id(b)]
        assert set(optimizer.state) == {w, b}


def test_follow_drops_what_is_gone_and_adds_what_is_new():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    model(ex.ones(1, 2)).sum().backward()
    optimizer.step()
    kept = optimizer.state[model[1].weight]["exp_avg"].clone()
    model[0] = nn.Linear(2, 2, bias=False)
    joined, dropped = optimizer.follow(model)
    assert [p is model[0].weight for p in joined] == [True]
    assert len(dropped) == 2
    assert set(optimizer.param_groups[0]["params"]) == set(model.parameters())
    assert ex.equal(optimizer.state[model[1].weight]["exp_avg"], kept)
    assert optimizer.follow(model) == ([], [])
    model.zero_grad()
    model(ex.ones(1, 2)).sum().backward()
    optimizer.step()
    assert optimizer.state[model[0].weight]["step"].item() == 1.0
    assert optimizer.state[model[1].weight]["step"].item() == 2.0


def test_follow_keeps_names_and_joins_the_group_it_is_told():
    model = nn.Linear(2, 2)
    optimizer = optim.SGD(model.named_parameters())
    model.extra = nn.Parameter(ex.ones(1))
    optimizer.follow(model)
    group = optimizer.param_groups[0]
    assert dict(zip(group["param_names"], map(id, group["params"]), strict=True)) == {
        name: id(p) for name, p in model.named_parameters()
    }
    with pytest.raises(ArgumentError, match="named_parameters"):
        optimizer.follow(list(model.parameters()))
    a, b, c = (ex.ones(1, requires_grad=True) for _ in range(3))
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}])
    optimizer.follow([a, b, c], group=1)
    assert [len(g["params"]) for g in optimizer.param_groups] == [1, 2]


def test_optimizers_are_told_only_while_they_live():
    gc.collect()
    before = len(remapping.LIVE)
    optimizer = optim.SGD([ex.ones(1, requires_grad=True)])
    assert len(remapping.LIVE) == before + 1
    del optimizer
    gc.collect()
    assert len(remapping.LIVE) == before


def test_a_model_may_change_between_every_two_steps():
    rng = np.random.default_rng(0)
    layers = [nn.Linear(3, 3) for _ in range(2)]
    optimizer = optim.Adam([p for layer in layers for p in layer.parameters()])
    for step in range(30):
        if len(layers) > 1 and rng.random() < 0.5:
            layers.pop(rng.integers(len(layers)))
        else:
            layers.insert(rng.integers(len(layers) + 1), nn.Linear(3, 3))
        model = nn.Sequential(*layers)
        optimizer.follow(model)
        optimizer.zero_grad()
        model(ex.ones(1, 3)).sum().backward()
        optimizer.step()
        assert set(optimizer.state) == set(model.parameters()), step
