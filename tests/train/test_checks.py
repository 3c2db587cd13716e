"""What fit finds before the first epoch; that it warns of nothing else, and that looking changes nothing."""

from __future__ import annotations

import warnings

import pytest

import extempo as ex
from extempo import metrics, nn, optim
from extempo.data import DataLoader, TensorDataset
from extempo.nn import functional as F
from extempo.train import Trainer, trainer


def data(n=32):
    generator = ex.Generator().manual_seed(0)
    x = ex.randn(n, 4, generator=generator)
    return x, (x @ ex.randn(4, 3, generator=generator)).argmax(1)


def network(*last):
    ex.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3), *last)


def findings(model, loss, batch, optimizer=None, **options):
    """The warnings of a fit that trains on one batch."""
    made = Trainer(model, loss, optimizer or optim.SGD(model.parameters(), lr=0.01), progress=False, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made.fit([batch], epochs=1)
    assert all(str(w.message).startswith("fit: ") and "\n" not in str(w.message) for w in caught)
    assert all(w.filename == __file__ for w in caught), "the line is the user's"
    return [str(w.message) for w in caught]


def test_a_healthy_model_gets_no_warning():
    x, y = data()
    assert findings(network(), F.cross_entropy, (x, y), metrics=[metrics.Accuracy()]) == []
    assert findings(network(), nn.CrossEntropyLoss(label_smoothing=0.1), (x, y)) == []
    assert findings(network(nn.LogSoftmax(1)), nn.NLLLoss(), (x, y)) == []
    assert findings(nn.Linear(4, 1), F.mse_loss, (x, x[:, :1])) == []
    assert findings(nn.Linear(4, 1), F.binary_cross_entropy_with_logits, (x, (x[:, :1] > 0).float())) == []
    assert findings(network(), nn.CrossEntropyLoss(reduction="sum"), (x, y)) == []


def test_a_first_loss_far_from_chance():
    x, y = data()
    model = network()
    with ex.no_grad():
        model[4].weight.mul_(100)
    (found,) = findings(model, F.cross_entropy, (x, y))
    assert "guessing among 3 classes would give 1.1: the last layer's weights may be too large" in found
    model = network()
    with ex.no_grad():
        model[4].weight.zero_()
        model[4].bias.copy_(ex.tensor([9.0, 0.0, 0.0]))
    found = findings(model, nn.CrossEntropyLoss(), (x, y * 0))
    assert "is the model trained already" in found[0]
    (found,) = findings(nn.Linear(4, 1), nn.BCEWithLogitsLoss(), (x * 100, (x[:, :1] > 0).float()))
    assert "guessing among 2 classes would give 0.693" in found


def test_probabilities_in_place_of_scores():
    x, y = data()
    (found,) = findings(network(nn.Softmax(1)), F.cross_entropy, (x, y))
    assert "leave the softmax out" in found


def test_shapes_that_broadcast_silently():
    x, _ = data()

    def loss(output, target):  # mse_loss warns of it by itself
        return ((output - target) ** 2).mean()

    (found,) = findings(nn.Linear(4, 1), loss, (x, x[:, 0]))
    assert "output (32, 1) and target (32,) differ and broadcast to (32, 32) in the loss" in found
    (found,) = findings(nn.Linear(4, 1), loss, (x, (x[:, 0] > 0).long()))
    assert "broadcast to (32, 32)" in found


def test_parameters_that_no_gradient_reaches():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.left = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x):
            return self.used(x)

    (found,) = findings(Unused(), F.cross_entropy, data())
    assert found == "fit: no gradient reaches left.weight, left.bias: is it used in forward?"


def test_dead_units():
    class Dead(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.last((self.first(x) - 1000).relu())

    (found,) = findings(Dead(), F.cross_entropy, data())
    assert "the gradient of first.weight, first.bias, last.weight is all zeros" in found


def test_an_optimizer_of_other_parameters():
    model, other = network(), network()
    found = findings(model, F.cross_entropy, data(), optim.SGD([*other.parameters()], lr=0.1))
    assert found == [
        "fit: the optimizer does not have 0.weight, 0.bias, 1.weight and 3 more: was it made before they were, or of "
        "another model?"
    ]


def test_a_loss_that_is_not_finite_from_the_start():
    made = Trainer(nn.Linear(4, 3), F.cross_entropy, optim.SGD(nn.Linear(1, 1).parameters()), progress=False)
    x, y = data()
    with pytest.warns(UserWarning, match="the loss is nan before any training"), pytest.raises(RuntimeError):
        made.fit([(x * float("nan"), y)], epochs=1)


def test_frozen_parameters_are_no_finding():
    model = network()
    model[0].requires_grad_(False)
    parameters = [p for p in model.parameters() if p.requires_grad]
    assert findings(model, F.cross_entropy, data(), optim.SGD(parameters, lr=0.1)) == []


def test_looking_changes_no_bit(monkeypatch):
    def go():
        model = network()
        made = Trainer(model, F.cross_entropy, optim.Adam(model.parameters()), [metrics.Accuracy()], progress=False)
        made.fit(DataLoader(TensorDataset(*data()), 8, shuffle=True), epochs=2)
        return model.state_dict(), made.history["train_loss"], made.history["train_accuracy"], ex.rand(2)

    looked = []
    real = trainer.check
    monkeypatch.setattr(trainer, "check", lambda *args: looked.append(1) or real(*args))
    state, *others, draw = go()
    monkeypatch.setattr(Trainer, "_check_first", lambda *args: None)
    state_without, *others_without, draw_without = go()
    assert looked == [1]
    assert others == others_without
    assert ex.equal(draw, draw_without)
    assert all(ex.equal(state[name], state_without[name]) for name in state)


class InAList(nn.Module):
    def __init__(self, first=None):
        super().__init__()
        self.first = first or nn.Identity()
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 3)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.first(x)


def test_layers_in_a_plain_list_are_found():
    x, y = data()
    told = findings(InAList(nn.Linear(3, 3)), F.cross_entropy, (x, y))
    assert told == [
        "fit: layers.0.weight gets a gradient but is no parameter of the model, and is not trained; layers is a plain "
        "list: make it nn.ModuleList(...), which registers what is in it"
    ]


def test_a_frozen_teacher_in_a_list_is_nobodys_mistake():
    class Student(nn.Linear):
        def __init__(self):
            super().__init__(4, 3)
            self.teachers = [nn.Linear(4, 3)]

        def forward(self, x):
            with ex.no_grad():
                taught = self.teachers[0](x)
            return super().forward(x) + taught

    x, y = data()
    assert findings(Student(), F.cross_entropy, (x, y)) == []


def test_inputs_that_forward_does_not_take_are_named_before_training():
    x, y = data()
    model = nn.Linear(4, 3)
    made = Trainer(model, F.cross_entropy, optim.SGD(model.parameters(), lr=0.1), progress=False)
    told = r"gives the model 2 inputs, all but the last of it, which is the target, but Linear\.forward"
    with pytest.raises(TypeError, match=told):
        made.fit([(x, x, y)], epochs=1)
    with pytest.raises(TypeError, match="the entries input, text beside 'target', but Linear"):
        made.fit([{"input": x, "text": ["a"] * 32, "target": y}], epochs=1)
    assert made.n_steps == 0
