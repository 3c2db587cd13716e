"""overfit and find_lr: what they find, and that everything is put back."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest

import extempo as ex
from extempo import nn, optim
from extempo.data import DataLoader, TensorDataset
from extempo.nn import functional as F
from extempo.train import LRCurve, Trainer


def loader():
    generator = ex.Generator().manual_seed(0)
    x = ex.randn(64, 4, generator=generator)
    return DataLoader(TensorDataset(x, (x @ ex.randn(4, 3, generator=generator)).argmax(1)), 8, shuffle=True)


def trainer(n_hidden=16, **options):
    ex.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(4, n_hidden), nn.BatchNorm1d(n_hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(n_hidden, 3)
    )
    optimizer = optim.Adam(
        [{"params": model[:2].parameters(), "lr": 0.02}, {"params": model[2:].parameters()}], lr=0.01
    )
    return Trainer(model, F.cross_entropy, optimizer, progress=False, **options)


def state(made):
    draws = random.getstate(), np.random.get_state()[1].tolist(), ex.get_rng_state().tolist()
    model = {name: value.numpy().tobytes() for name, value in made.model.state_dict().items()}
    return model, repr(made.optimizer.state_dict()), draws, made.n_steps, made.model.training, len(made.history)


@pytest.mark.parametrize("trained", [False, True])
def test_everything_is_restored(trained, capsys):
    made = trainer()
    if trained:
        made.fit(loader(), epochs=1)
    else:
        made.model.eval()
    before = state(made)
    made.overfit(next(iter(loader())), steps=10)
    made.find_lr(loader(), steps=10)
    after = state(made)
    # the loader that the test itself began has drawn
    assert before[:2] == after[:2]
    assert before[3:] == after[3:]
    batch = next(iter(loader()))
    before = state(made)
    made.overfit(batch, steps=10)
    made.find_lr([batch] * 3, steps=10)
    assert state(made) == before
    assert all(p.grad is None for p in made.model.parameters())


def test_training_after_trials_has_the_bits_of_training_without():
    results = []
    for tried in (True, False):
        made = trainer()
        if tried:
            made.find_lr(loader(), steps=20)
        made.fit(loader(), epochs=2)
        results.append(state(made))
    assert results[0] == results[1]


def test_a_model_that_can_learn_a_batch_by_heart_and_one_that_cannot(capsys):
    batch = next(iter(loader()))
    assert trainer().overfit(batch) is True
    told = capsys.readouterr().out
    assert told.startswith("overfit: loss ")
    assert told.endswith("steps on one batch\n")
    model = nn.Linear(4, 3)
    stuck = Trainer(model, F.cross_entropy, optim.SGD(model.parameters(), lr=0.0), progress=False)
    assert stuck.overfit(batch, steps=5) is False
    assert "after 5 steps" in capsys.readouterr().out
    x = ex.full((2, 4), math.nan)
    assert stuck.overfit((x, ex.tensor([0, 1]))) is False
    assert "after 1 step on" in capsys.readouterr().out


def test_a_learning_rate_that_trains_is_suggested():
    made = trainer()
    curve = made.find_lr(loader())
    assert 1e-3 < curve.suggestion < 1.0
    assert curve.rates[0] == pytest.approx(1e-6)
    ratios = {round(b / a, 6) for a, b in zip(curve.rates, curve.rates[1:], strict=False)}
    assert len(ratios) == 1
    assert made.optimizer.param_groups[0]["lr"] == 0.02


def test_groups_keep_their_proportions():
    seen = []
    made = trainer()
    made.optimizer.register_step_pre_hook(
        lambda optimizer, args, kwargs: seen.append([group["lr"] for group in optimizer.param_groups])
    )
    made.find_lr(loader(), low=1e-4, high=1e-2, steps=3)
    assert np.allclose(seen, [[1e-4, 0.5e-4], [1e-3, 0.5e-3], [1e-2, 0.5e-2]])


def test_curves_in_words_numbers_and_pictures():
    rates = [10.0 ** (k / 10 - 5) for k in range(50)]
    losses = [1.0 if r < 1e-3 else max(1 - 0.3 * (math.log10(r) + 3), 0.3) + (r > 0.3) * 2 for r in rates]
    curve = LRCurve(rates, losses)
    assert 1e-3 <= curve.suggestion < 0.3
    assert f"suggested learning rate: {curve.suggestion:.1e}" in str(curve)
    assert max(map(len, str(curve).splitlines())) <= 80
    assert json.loads(curve.to_json())["suggestion"] == curve.suggestion
    assert "<svg" in curve._repr_html_()
    empty = LRCurve([], [])
    assert "not finite at the lowest" in str(empty)
    assert math.isnan(empty.suggestion)
    assert json.loads(empty.to_json())["suggestion"] is None
    assert "<svg" in empty._repr_html_()


def test_few_and_no_batches():
    made = trainer()
    batches = list(loader())
    assert len(made.find_lr(iter(batches), steps=100).rates) == len(batches), "an iterator is read once"
    with pytest.raises(ValueError, match="no batches"):
        made.find_lr([])
    with pytest.raises(ValueError, match="0 < low < high"):
        made.find_lr(batches, low=1.0, high=0.1)


def test_a_loss_that_learns_is_restored_too():
    made = trainer()
    made.loss = Tempered()
    learning = Trainer(
        made.model, made.loss, optim.SGD([*made.model.parameters(), *made.loss.parameters()], lr=0.1), progress=False
    )
    learning.find_lr(loader(), steps=20)
    assert made.loss.scale.item() == 1.0
    learning.fit(loader(), epochs=1)
    assert made.loss.scale.item() != 1.0


class Tempered(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(ex.ones(()))

    def forward(self, output, target):
        return F.cross_entropy(output * self.scale, target)


def test_too_few_steps_suggest_nothing():
    curve = trainer().find_lr(iter(list(loader())[:2]))
    assert math.isnan(curve.suggestion)
    assert "too few steps" in str(curve)
    assert json.loads(curve.to_json())["suggestion"] is None
    assert "<svg" in curve._repr_html_()


def test_a_loader_is_no_batch():
    with pytest.raises(TypeError, match=r"next\(iter\(loader\)\)"):
        trainer().overfit(loader())
