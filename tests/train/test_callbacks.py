"""Callbacks: the order of their calls, stopping early, keeping the best, event files that TensorBoard reads."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo.nn import functional as F
from extempo.train import Callback, EarlyStopping, KeepBest

from .small_runs import loader, trainer


class Noting(Callback):
    def __init__(self, calls, name=""):
        self.calls, self.name = calls, name

    def on_start(self, trainer):
        self.calls.append(f"{self.name}start")

    def on_step(self, trainer, loss):
        self.calls.append(f"{self.name}step {trainer.n_steps}")

    def on_epoch(self, trainer, record):
        self.calls.append(f"{self.name}epoch {record['epoch']}")

    def on_end(self, trainer):
        self.calls.append(f"{self.name}end")


def test_the_order_of_calls():
    calls = []
    trainer([Noting(calls)], accumulate=2).fit(loader(), epochs=2)
    assert calls == ["start", "step 1", "step 2", "epoch 1", "step 3", "step 4", "epoch 2", "end"]
    calls = []
    trainer([Noting(calls, "a "), Noting(calls, "b ")]).fit(loader(1), epochs=1)
    assert calls == ["a start", "b start", "a step 1", "b step 1", "a epoch 1", "b epoch 1", "a end", "b end"]


def test_the_end_is_told_also_after_an_error():
    class Failing(Callback):
        def on_step(self, trainer, loss):
            raise OSError("no space")

    calls = []
    with pytest.raises(OSError, match="no space"):
        trainer([Noting(calls), Failing()]).fit(loader(), epochs=1)
    assert calls == ["start", "step 1", "end"]


def test_a_step_is_told_the_mean_loss_of_its_batches():
    losses = []

    class Losses(Callback):
        def on_step(self, trainer, loss):
            losses.append(loss)

    trainer([Losses()], lr=0.0, accumulate=3).fit(loader(), epochs=1)
    made = trainer()
    x, y = loader().dataset.tensors
    assert losses == [pytest.approx(F.cross_entropy(made.model(x), y).item())]


class Replaying(Callback):
    """Puts losses of our choice into the records; stands before the one that is tested."""

    def __init__(self, losses):
        self.losses = losses

    def on_epoch(self, trainer, record):
        record["valid_loss"] = self.losses[record["epoch"] - 1]


def test_training_stops_when_a_figure_has_not_improved_for_so_many_epochs(capsys):
    losses = [3.0, 2.0, 2.5, 1.9, 1.95, 1.9, 1.0, 1.0]
    made = trainer([Replaying(losses), EarlyStopping(2)], progress=True)
    assert len(made.fit(loader(), epochs=8)) == 6
    assert made.stop == "valid_loss has not improved for 2 epochs (best 1.9)"
    assert f"stopped: {made.stop}" in capsys.readouterr().out
    made = trainer([Replaying(losses), EarlyStopping(1, min_delta=0.6)])
    assert len(made.fit(loader(), epochs=8)) == 3
    made = trainer([Replaying(losses), EarlyStopping(2, mode="max")])
    assert len(made.fit(loader(), epochs=8)) == 3
    with pytest.raises(ValueError, match="no figure 'valid_f1' in this epoch; there are train_loss"):
        trainer([EarlyStopping(figure="valid_f1")]).fit(loader(), loader(), epochs=1)
    with pytest.raises(ValueError, match="'min' or 'max'"):
        EarlyStopping(mode="least")
    with pytest.raises(ValueError, match="at least 1 epoch"):
        EarlyStopping(0)


def test_nan_is_no_improvement():
    made = trainer([Replaying([2.0, math.nan, math.nan, 1.0]), EarlyStopping(2)])
    assert len(made.fit(loader(), epochs=4)) == 3


def test_the_best_weights_are_kept_and_put_back(tmp_path):
    seen = []

    class Weights(Callback):
        def on_epoch(self, trainer, record):
            seen.append(trainer.model.weight.detach().clone())

    keep = KeepBest(tmp_path / "deep" / "best.ext", restore=True)
    made = trainer([Replaying([2.0, 1.0, 3.0, math.nan]), Weights(), keep])
    made.fit(loader(), epochs=4)
    assert ex.equal(ex.load(tmp_path / "deep" / "best.ext")["weight"], seen[1])
    assert ex.equal(made.model.weight, seen[1])
    assert not ex.equal(made.model.weight, seen[3])
    made = trainer([Replaying([2.0, 1.0]), KeepBest()], log_dir=tmp_path / "log")
    made.fit(loader(), epochs=2)
    assert (tmp_path / "log" / "best.ext").exists()
    with pytest.raises(ValueError, match="log_dir"):
        trainer([KeepBest()]).fit(loader(), loader(), epochs=1)


@pytest.mark.parametrize("follower", [EarlyStopping(), KeepBest("best.ext")])
def test_a_figure_of_validation_without_validation_is_refused_before_anything_is_trained(follower):
    made = trainer([follower])
    with pytest.raises(ValueError, match=r"no data for validation: fit\(train, valid"):
        made.fit(loader(), epochs=1)
    assert made.n_steps == 0


def test_one_callback_needs_no_list_and_a_class_is_none():
    calls = []
    trainer(Noting(calls)).fit(loader(1), epochs=1)
    assert calls == ["start", "step 1", "epoch 1", "end"]
    with pytest.raises(TypeError, match="must be objects of Callback"):
        trainer([EarlyStopping])
