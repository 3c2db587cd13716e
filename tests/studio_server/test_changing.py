"""Changes are all or nothing: what fails leaves model and optimizer as they were, to the bit."""

from __future__ import annotations

import copy

import pytest

import extempo as ex
from extempo import nn
from extempo.nn import functional as F
from extempo.studio_server.changing import apply_change
from extempo.studio_server.commands import PageCommand, RefusedCommand


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 5))
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        return self.head(self.body(x))


@pytest.fixture
def trained():
    ex.manual_seed(0)
    model = Net()
    optimizer = ex.optim.Adam(model.parameters(), lr=0.1)
    x, y = ex.randn(6, 3), ex.tensor([0, 1, 0, 1, 0, 1])
    for _ in range(3):
        step(model, optimizer, x, y)
    return model, optimizer, x, y


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return float(loss.item())


def change(trained, kind, **fields):
    model, optimizer, x, _ = trained
    defaults = {"insert": {"identity": True}, "lr": {"group": None}}.get(kind, {})
    return apply_change(PageCommand(kind, "c", {**defaults, **fields}), model, optimizer, ((x,), {}))


def everything(trained):
    """All that a change could spoil, as plain values."""
    model, optimizer, *_ = trained
    return (
        str(model),
        [(name, id(p), p.tolist(), p.requires_grad) for name, p in model.named_parameters()],
        [(name, b.tolist()) for name, b in model.named_buffers()],
        [[id(p) for p in group["params"]] for group in optimizer.param_groups],
        [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups],
        {id(p): {k: v.tolist() for k, v in s.items()} for p, s in optimizer.state.items()},
        ex.random.get_rng_state().tolist(),
    )


GOOD = [
    ("lr", {"lr": 0.5}),
    ("insert", {"container": "body", "position": 1, "layer": {"kind": "Linear"}}),
    ("insert", {"container": "body", "position": 4, "layer": {"kind": "Tanh"}}),
    ("insert", {"container": "body", "position": 0, "layer": {"kind": "Dropout", "p": 0.1}}),
    ("insert", {"container": "head", "position": 1, "layer": {"kind": "LayerNorm"}}),
    ("insert", {"container": "head", "position": 0, "layer": {"kind": "Linear"}}),
    ("remove", {"path": "body.2"}),
    ("replace", {"path": "body.2", "layer": {"kind": "GELU"}}),
    ("replace", {"path": "head", "layer": {"kind": "Linear"}}),
    ("widen", {"path": "body.0", "units": 9}),
    ("widen", {"path": "body.3", "units": 8}),
    ("freeze", {"path": "body"}),
]
BAD = [
    ("lr", {"lr": 0.5, "group": 3}),
    ("insert", {"container": "body", "position": 9, "layer": {"kind": "ReLU"}}),
    ("insert", {"container": "nowhere", "position": 0, "layer": {"kind": "ReLU"}}),
    ("insert", {"container": "body.__class__", "position": 0, "layer": {"kind": "ReLU"}}),
    ("insert", {"container": "", "position": 0, "layer": {"kind": "ReLU"}}),
    ("insert", {"container": "body", "position": 1, "layer": {"kind": "Linear", "out_features": 7}}),
    ("insert", {"container": "head", "position": 1, "layer": {"kind": "Linear", "out_features": 7}}),
    ("insert", {"container": "head", "position": 2, "layer": {"kind": "ReLU"}}),
    ("insert", {"container": "body", "position": 1, "layer": {"kind": "os.system"}}),
    ("remove", {"path": "body.3"}),
    ("remove", {"path": "head"}),
    ("remove", {"path": ""}),
    ("replace", {"path": "body.0", "layer": {"kind": "ReLU"}}),
    ("replace", {"path": "body", "layer": {"kind": "ReLU"}}),
    ("widen", {"path": "body.0", "units": 2}),
    ("widen", {"path": "head", "units": 9}),
    ("widen", {"path": "body.2", "units": 9}),
    ("freeze", {"path": ""}),
    ("freeze", {"path": "body.2"}),
]


@pytest.mark.parametrize(("kind", "fields"), GOOD, ids=str)
def test_a_change_is_made_the_optimizer_follows_and_training_goes_on(trained, kind, fields):
    assert change(trained, kind, **fields)
    model, optimizer, x, y = trained
    trains = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert trains == {id(p) for p in model.parameters()}
    losses = [step(model, optimizer, x, y) for _ in range(5)]
    assert all(loss == loss for loss in losses)


@pytest.mark.parametrize(("kind", "fields"), BAD, ids=str)
def test_a_change_that_fails_leaves_everything_as_it_was(trained, kind, fields):
    before = everything(trained)
    with pytest.raises(RefusedCommand):
        change(trained, kind, **fields)
    assert everything(trained) == before


def test_training_goes_on_after_a_refused_change_as_if_it_had_not_been(trained):
    model, optimizer, x, y = trained
    other = copy.deepcopy(model)
    other_optimizer = ex.optim.Adam(other.parameters(), lr=0.1)
    other_optimizer.load_state_dict(optimizer.state_dict())
    for kind, fields in BAD:
        with pytest.raises(RefusedCommand):
            change(trained, kind, **fields)
    ours = [step(model, optimizer, x, y) for _ in range(3)]
    assert ours == [step(other, other_optimizer, x, y) for _ in range(3)]


def test_a_linear_layer_that_starts_as_the_identity_changes_no_output(trained):
    model, _, x, _ = trained
    model.eval()
    before = model(x)
    change(trained, "insert", container="body", position=1, layer={"kind": "Linear"})
    assert ex.allclose(model(x), before)


def test_widening_changes_no_output(trained):
    model, _, x, _ = trained
    model.eval()
    before = model(x)
    change(trained, "widen", path="body.0", units=11)
    assert model.body[0].weight.shape == (11, 3)
    assert model.body[1].num_features == 11
    assert ex.allclose(model(x), before, atol=1e-6)


def test_frozen_layers_stay_and_unfrozen_ones_learn_again(trained):
    model, optimizer, x, y = trained
    change(trained, "freeze", path="body")
    kept = model.body[0].weight.tolist()
    step(model, optimizer, x, y)
    assert model.body[0].weight.tolist() == kept
    change(trained, "unfreeze", path="body")
    step(model, optimizer, x, y)
    assert model.body[0].weight.tolist() != kept


def test_an_interrupt_in_the_middle_undoes_the_change(trained, monkeypatch):
    before = everything(trained)
    monkeypatch.setattr("extempo.studio_server.changing._try", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        change(trained, "insert", container="body", position=1, layer={"kind": "Linear"})
    assert everything(trained) == before


def test_without_an_input_to_try_it_on_no_layer_is_changed(trained):
    model, optimizer, *_ = trained
    command = PageCommand("remove", "c", {"path": "body.2"})
    with pytest.raises(RefusedCommand, match="captured"):
        apply_change(command, model, optimizer, None)
    assert apply_change(PageCommand("lr", "c", {"lr": 0.3, "group": 0}), model, optimizer, None)
    assert optimizer.param_groups[0]["lr"] == 0.3
