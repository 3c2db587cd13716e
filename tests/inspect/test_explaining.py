"""Which parameters get gradients, which not and why; and how gradients are after backward."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError
from extempo.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(4, 8)
        self.frozen = nn.Linear(8, 3).requires_grad_(False)
        self.cut = nn.Linear(8, 1)
        self.rounded = nn.Linear(8, 3)
        self.lost = nn.Linear(8, 3)
        self.unused = nn.Linear(1, 1)

    def forward(self, x):
        h = self.used(x)
        self.lost(h)
        with ex.no_grad():
            y = self.rounded(h)
        return self.frozen(h) + self.cut(h).detach() + y


X, Y = ex.ones(5, 4), ex.tensor([0, 1, 2, 0, 1])


def line_of(fn, offset):
    return f"test_explaining.py:{fn.__code__.co_firstlineno + offset}"


def test_a_function_is_followed_and_every_reason_told_with_its_line():
    model = Net()
    told = ex.explain(lambda: F.cross_entropy(model(X), Y), model)
    assert told.with_gradient == ["used.weight", "used.bias"]
    reasons = told.without_gradient
    assert reasons["frozen.weight"] == "requires_grad=False"
    assert reasons["cut.weight"].startswith("cut by detach() at ")
    assert reasons["cut.weight"].endswith(line_of(Net.forward, 5))
    assert reasons["rounded.bias"].startswith("cut by no_grad() at ")
    assert reasons["rounded.bias"].endswith(line_of(Net.forward, 4))
    assert reasons["lost.weight"] == "its result does not go into the loss"
    assert reasons["unused.weight"] == "not used"
    assert all(p.grad is None for p in model.parameters())


def test_a_loss_is_read_from_its_graph():
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    loss = F.cross_entropy(model[1](model[0](X).detach()), Y)
    told = ex.explain(loss, model)
    assert told.with_gradient == ["1.weight", "1.bias"]
    assert "cut by detach() at" in told["0.weight"].reason
    assert ex.explain(loss).with_gradient == ["1.weight", "1.bias"]  # the model is found
    with pytest.raises(KeyError, match="no parameter 'weight'"):
        told["weight"]


def test_an_integer_op_is_a_cut():
    w = ex.ones(3, requires_grad=True)
    told = ex.explain(lambda: w.argmax().float(), None)
    assert told.parameters == []
    model = nn.Linear(4, 3)
    told = ex.explain(lambda: model(X).argmax(1).float().mean(), model)
    assert told["weight"].reason.startswith("cut by argmax")


def test_softmax_before_cross_entropy_is_found_with_both_lines():
    model = nn.Linear(4, 3)
    scores = model(X).softmax(1)
    (finding,) = ex.explain(F.cross_entropy(scores, Y), model).findings
    assert "softmax (" in finding
    assert "goes into cross_entropy (" in finding
    assert "leave the softmax out" in finding
    assert ex.explain(F.cross_entropy(model(X), Y), model).findings == []


def test_a_difference_that_broadcasts_is_found():
    model = nn.Linear(4, 1)
    target = ex.ones(5)
    (finding,) = ex.explain(((model(X) - target) ** 2).mean(), model).findings
    assert "of shapes (5, 1) and (5,) broadcasts to (5, 5)" in finding
    assert ex.explain(((model(X) - target[:, None]) ** 2).mean(), model).findings == []
    bias = ex.ones(1)  # (5, 1) - (1,) is no outer difference
    assert ex.explain((model(X) - bias).mean(), model).findings == []


def test_gradients_of_an_earlier_backward_are_told():
    model = nn.Linear(4, 1)
    model(X).sum().backward()
    (finding,) = ex.explain(model(X).sum(), model).findings
    assert "still have the gradient of an earlier backward" in finding
    assert "zero_grad()" in finding


def test_what_the_optimizer_does_not_have_is_told():
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    optimizer = ex.optim.SGD(model[0].parameters(), lr=0.1)
    (finding,) = ex.explain(F.cross_entropy(model(X), Y), model, optimizer).findings
    assert "not in the optimizer, so never updated: 1.weight, 1.bias" in finding
    other = ex.optim.SGD(nn.Linear(4, 8).parameters(), lr=0.1)
    assert any("was it made of another one?" in f for f in ex.explain(model(X).sum(), model, other).findings)


def test_training_mode_where_nothing_is_recorded_is_told():
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout())
    with ex.no_grad():
        (finding,) = ex.explain(model(X), model).findings
        assert "call model.eval() first" in finding
        assert ex.explain(model.eval()(X), model).findings == []


def test_after_backward_gradients_and_the_next_update_have_sizes():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = ex.optim.SGD(model.parameters(), lr=0.01)
    before = model[0].weight.detach().clone()
    loss = F.cross_entropy(model(X), Y)
    loss.backward()
    told = ex.explain(loss, model, optimizer)
    assert told.is_after_backward
    report = told["2.weight"]
    assert report.gradient == pytest.approx(model[2].weight.grad.square().mean().sqrt().item(), rel=1e-4)
    assert report.update == pytest.approx(0.01 * report.gradient / report.weight, rel=1e-3)
    assert ex.equal(model[0].weight, before)
    assert "update" in str(told)


def test_dead_units_vanishing_and_exploding_gradients_are_found():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    with ex.no_grad():
        model[0].bias[:2] = -100.0
    loss = F.cross_entropy(model(X), Y)
    loss.backward()
    assert any("dead units: " in f and "0.weight" in f for f in ex.explain(loss, model).findings)
    deep = nn.Sequential(*[layer for _ in range(12) for layer in (nn.Linear(4, 4), nn.Sigmoid())])
    loss = deep(X).sum()
    loss.backward()
    assert any(f.startswith("vanishing gradients: 0.weight") for f in ex.explain(loss, deep).findings)
    steep = nn.Linear(4, 1)
    loss = (steep(X) * 1e6).sum()
    loss.backward()
    assert any(f.startswith("exploding gradients") for f in ex.explain(loss, steep).findings)


def test_rows_of_an_embedding_that_are_not_used_are_not_dead():
    model = nn.Embedding(10, 4)
    loss = model(ex.tensor([1, 2])).sum()
    loss.backward()
    assert ex.explain(loss, model)["weight"].n_dead == 0


def test_it_prints_as_json_and_html():
    model = nn.Linear(4, 3)
    told = ex.explain(F.cross_entropy(model(X).softmax(1), Y), model)
    assert told.as_dict()["parameters"][0]["name"] == "weight"
    assert "<table" in told._repr_html_()
    assert "leave the softmax out" in told._repr_html_()


def test_what_is_no_loss_and_no_model_is_refused():
    with pytest.raises(DtypeError, match="expected a tensor or a function"):
        ex.explain(3.0)
    with pytest.raises(DtypeError, match="model must be a Module"):
        ex.explain(ex.ones(1), ex.ones(1))
