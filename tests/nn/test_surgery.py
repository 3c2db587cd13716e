"""Wider, narrower, longer, shorter models: what they compute, and what optimizers keep for them."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.errors import ArgumentError, IndexRangeError, ShapeError, UnsupportedError
from extempo.nn import surgery


class Net(nn.Module):
    """Convolutions with batch norm and a slope per channel, flattened into a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.slope = nn.PReLU(3)
        self.more = nn.ConvTranspose2d(3, 4, 1)
        self.out = nn.Linear(4 * 4, 2)

    def forward(self, x):
        x = self.slope(self.norm(self.conv(x)))
        return self.out(self.more(x).tanh().flatten(1))


def batch():
    ex.manual_seed(3)
    return ex.randn(6, 1, 2, 2), ex.tensor([0, 1, 0, 1, 1, 0])


def mlp():
    ex.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def train(model, optimizer, x, y, n_steps=5):
    losses = []
    for _ in range(n_steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("method", ["zero", "split"])
@pytest.mark.parametrize("make", [optim.SGD, optim.Adam], ids=["SGD", "Adam"])
def test_the_loss_does_not_jump_when_a_layer_grows(method, make):
    model = mlp()
    x, y = ex.randn(8, 4), ex.randint(3, (8,))
    optimizer = make(model.parameters(), lr=0.05, **({"momentum": 0.9} if make is optim.SGD else {}))
    before = train(model, optimizer, x, y, 10)
    loss = nn.functional.cross_entropy(model(x), y).item()
    surgery.widen(model[0], 9, into=[model[2]], method=method)
    assert nn.functional.cross_entropy(model(x), y).item() == pytest.approx(loss, abs=1e-6)
    after = train(model, optimizer, x, y, 10)
    assert after[0] == pytest.approx(loss, abs=1e-6)
    assert after[-1] < after[0] < before[0]
    assert max(after) <= loss + 1e-6
    assert model[0].out_features == model[2].in_features == 9


@pytest.mark.parametrize("method", ["zero", "split"])
def test_a_convolutional_net_computes_the_same_after_growing(method):
    model = Net()
    x, y = batch()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    train(model, optimizer, x, y)
    model.eval()
    expected = model(x)
    surgery.widen(model.conv, 6, through=[model.norm, model.slope], into=[model.more], method=method)
    surgery.widen(model.more, 7, into=[model.out], method=method)
    assert ex.allclose(model(x), expected, atol=1e-5)
    assert model.norm.num_features == 6
    assert model.norm.running_mean.shape == (6,)
    assert model.out.in_features == 7 * 4
    model.train()
    train(model, optimizer, x, y)
    assert set(optimizer.param_groups[0]["params"]) == set(model.parameters())


def test_moments_of_kept_units_are_bit_identical_after_widening():
    model = mlp()
    optimizer = optim.Adam(model.parameters())
    train(model, optimizer, ex.randn(8, 4), ex.randint(3, (8,)))
    old = [{k: v.numpy().copy() for k, v in optimizer.state[p].items()} for p in model.parameters()]
    surgery.widen(model[0], 8, into=[model[2]])
    kept = [(slice(0, 5),), (slice(0, 5),), (slice(None), slice(0, 5)), ()]
    new = [(slice(5, 8),), (slice(5, 8),), (slice(None), slice(5, 8)), None]
    for p, before, here, rest in zip(model.parameters(), old, kept, new, strict=True):
        for name in ("exp_avg", "exp_avg_sq"):
            moments = optimizer.state[p][name].numpy()
            assert moments[here].tobytes() == before[name].tobytes()
            assert rest is None or not moments[rest].any()
        assert optimizer.state[p]["step"].item() == before["step"]


def test_copies_get_the_moments_of_their_original_and_differ_afterwards():
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = ex.randn(8, 4), ex.randint(3, (8,))
    train(model, optimizer, x, y)
    old = optimizer.state[model[0].weight]["momentum_buffer"].clone()
    surgery.widen(model[0], 6, into=[model[2]], method="split")
    weight = model[0].weight.detach()
    (source,) = [i for i in range(5) if ex.equal(weight[i], weight[5])]
    moments = optimizer.state[model[0].weight]["momentum_buffer"]
    assert ex.equal(moments[:5], old)
    assert ex.equal(moments[5], old[source])
    train(model, optimizer, x, y)
    assert not ex.allclose(model[0].weight[source], model[0].weight[5])


def test_pruned_units_leave_and_the_rest_keep_weights_and_moments():
    model = mlp()
    optimizer = optim.Adam(model.parameters())
    x, y = ex.randn(8, 4), ex.randint(3, (8,))
    train(model, optimizer, x, y)
    keep = [4, 0, 2]
    weights = [p.detach().numpy().copy() for p in model.parameters()]
    moments = [optimizer.state[p]["exp_avg_sq"].numpy().copy() for p in model.parameters()]
    surgery.prune_units(model[0], ex.tensor(keep), into=[model[2]])
    for p, weight, moment, index in zip(
        model.parameters(), weights, moments, [(keep,), (keep,), (slice(None), keep), ()], strict=True
    ):
        assert p.detach().numpy().tobytes() == weight[index].tobytes()
        assert optimizer.state[p]["exp_avg_sq"].numpy().tobytes() == moment[index].tobytes()
    train(model, optimizer, x, y)


def test_units_without_effect_can_be_pruned_without_a_jump():
    model = mlp()
    x = ex.randn(8, 4)
    with ex.no_grad():
        model[2].weight[:, [1, 3]] = 0.0
    expected = model(x)
    surgery.prune_units(model[0], [0, 2, 4], into=[model[2]])
    assert ex.allclose(model(x), expected, atol=1e-6)


def test_an_embedding_can_grow():
    table, out = nn.Embedding(10, 4), nn.Linear(4, 2)
    words = ex.tensor([1, 5, 9])
    expected = out(table(words))
    surgery.widen(table, 7, into=[out])
    assert table.weight.shape == (10, 7)
    assert ex.allclose(out(table(words)), expected, atol=1e-6)


def test_gradients_between_backward_and_step_go_along():
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    nn.functional.cross_entropy(model(ex.randn(8, 4)), ex.randint(3, (8,))).backward()
    g, w = model[0].weight.grad.clone(), model[0].weight.detach().clone()
    surgery.widen(model[0], 6, into=[model[2]])
    optimizer.step()
    assert ex.equal(model[0].weight.detach()[:5], w - g)


def test_frozen_parameters_stay_frozen():
    model = mlp()
    model[0].weight.requires_grad_(False)
    surgery.widen(model[0], 6, into=[model[2]])
    assert not model[0].weight.requires_grad
    assert model[0].bias.requires_grad


def test_a_refused_change_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 3), nn.Linear(4, 5))
    model[3].weight = nn.Parameter(ex.randn(5, 4))
    before = [(id(p), tuple(p.shape)) for p in model.parameters()]
    cases = [
        (lambda: surgery.widen(model[0], 4, into=[model[2]]), ShapeError, "prune_units"),
        (lambda: surgery.widen(model[0], 8, into=[model[2]], method="copy"), ArgumentError, "'zero' or 'split'"),
        (lambda: surgery.widen(model[0], 8, through=[model[1]], into=[model[2]]), UnsupportedError, "mixes"),
        (lambda: surgery.widen(model[0], 8, into=[model[2], model[3]]), ShapeError, "no multiple of the 5 units"),
        (lambda: surgery.widen(model[0], 8, through=[nn.BatchNorm1d(4)]), ShapeError, "has 5 units"),
        (lambda: surgery.widen(model[1], 8), UnsupportedError, "LayerNorm"),
        (lambda: surgery.widen(nn.Conv1d(4, 4, 1, groups=2), 8), UnsupportedError, "ungrouped"),
        (lambda: surgery.prune_units(model[0], [0, 0]), IndexRangeError, "different units"),
        (lambda: surgery.prune_units(model[0], [5]), IndexRangeError, "0 to 4"),
        (lambda: surgery.prune_units(model[0], []), IndexRangeError, "keep"),
    ]
    for change, error, message in cases:
        with pytest.raises(error, match=message):
            change()
        assert [(id(p), tuple(p.shape)) for p in model.parameters()] == before
    tied = nn.Linear(5, 5)
    other = nn.Linear(5, 5)
    other.weight = tied.weight
    with pytest.raises(UnsupportedError, match="shared"):
        surgery.widen(tied, 6, into=[other])


def test_layers_put_in_and_taken_out_join_and_leave_their_optimizer():
    model = mlp()
    first = optim.Adam([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.5}])
    stranger = optim.SGD([ex.ones(1, requires_grad=True)])
    x, y = ex.randn(8, 4), ex.randint(3, (8,))
    train(model, first, x, y)
    surgery.insert_layer(model, 2, nn.Linear(5, 5))
    assert [len(group["params"]) for group in first.param_groups] == [2, 4]
    train(model, first, x, y)
    taken = surgery.remove_layer(model, 2)
    assert taken.weight not in first.state
    old = surgery.replace_layer(model, 0, nn.Linear(4, 5, bias=False))
    assert isinstance(old, nn.Linear)
    assert [len(group["params"]) for group in first.param_groups] == [1, 2]
    train(model, first, x, y)
    assert set(first.state) == set(model.parameters())
    assert len(stranger.param_groups[0]["params"]) == 1


def test_a_parameter_that_the_rest_still_uses_is_not_dropped():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    optimizer = optim.SGD(model.parameters())
    surgery.remove_layer(model, 0)
    assert {id(p) for p in optimizer.param_groups[0]["params"]} == {id(p) for p in model.parameters()}


def test_every_optimizer_of_a_parameter_follows():
    model = mlp()
    one, two = optim.SGD(model.parameters()), optim.Adam(model[0].parameters())
    surgery.widen(model[0], 6, into=[model[2]])
    assert two.param_groups[0]["params"][0] is one.param_groups[0]["params"][0] is model[0].weight
