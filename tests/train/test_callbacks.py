"""Callbacks: the order of their calls, stopping early, keeping the best, event files that TensorBoard reads."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo.metrics import Accuracy, ConfusionMatrix, Metric, Recall
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
    with pytest.raises(ValueError, match="'min' or 'max'"):
        EarlyStopping(mode="least")
    with pytest.raises(ValueError, match="at least 1 epoch"):
        EarlyStopping(0)


def test_nan_is_no_improvement():
    made = trainer([Replaying([2.0, math.nan, math.nan, 1.0]), EarlyStopping(2)])
    assert len(made.fit(loader(), epochs=4)) == 3


def test_the_best_weights_are_kept_and_put_back(tmp_path, capsys):
    seen = []

    class Weights(Callback):
        def on_epoch(self, trainer, record):
            seen.append(trainer.model.weight.detach().clone())

    keep = KeepBest(tmp_path / "deep" / "best.ext")
    made = trainer([Replaying([2.0, 1.0, 3.0, math.nan]), Weights(), keep], progress=True)
    made.fit(loader(), epochs=4)
    assert ex.equal(ex.load(tmp_path / "deep" / "best.ext")["weight"], seen[1])
    assert ex.equal(made.model.weight, seen[1])
    assert not ex.equal(made.model.weight, seen[3])
    assert "the model has its best weights again, those of epoch 2, valid_loss 1 (rest" in capsys.readouterr().out
    made = trainer([Replaying([2.0, 1.0]), KeepBest()], log_dir=tmp_path / "log")
    made.fit(loader(), epochs=2)
    assert (tmp_path / "log" / "best.ext").exists()


def test_the_best_weights_are_kept_in_memory_without_a_file_and_the_last_ones_stay_on_request():
    seen = []

    class Weights(Callback):
        def on_epoch(self, trainer, record):
            seen.append(trainer.model.weight.detach().clone())

    losses = [2.0, 1.0, 3.0]
    made = trainer([Replaying(losses), Weights(), KeepBest()])
    made.fit(loader(), epochs=3)
    assert ex.equal(made.model.weight, seen[1])
    made = trainer([Replaying(losses), Weights(), KeepBest(restore=False)])
    made.fit(loader(), epochs=3)
    assert ex.equal(made.model.weight, seen[-1])


def test_best_weights_in_memory_are_part_of_a_checkpoint(tmp_path):
    first = trainer([Replaying([1.0, 2.0, 3.0]), KeepBest()], checkpoint=tmp_path / "run.ext")
    first.fit(loader(), epochs=2)
    best = first.model.weight.detach().clone()
    second = trainer([Replaying([1.0, 2.0, 3.0]), KeepBest()], checkpoint=tmp_path / "run.ext")
    second.fit(loader(), epochs=3, resume=True)
    assert ex.equal(second.model.weight, best)


def test_best_weights_that_do_not_fit_any_more_leave_the_model_alone_and_say_so():
    class Growing(Callback):
        def on_epoch(self, trainer, record):
            if record["epoch"] == 2:
                trainer.model.weight = ex.nn.Parameter(ex.zeros(5, trainer.model.weight.shape[1]))
                trainer.model.bias = ex.nn.Parameter(ex.zeros(5))

    made = trainer([Replaying([1.0, 2.0]), KeepBest(), Growing()])
    with pytest.warns(UserWarning, match="the weights of epoch 1, valid_loss 1 do not fit the model any more"):
        made.fit(loader(), epochs=2)
    assert made.model.weight.shape[0] == 5


@pytest.mark.parametrize(("figure", "near"), [("val_loss", "valid_loss"), ("valid_acuracy", "valid_accuracy")])
def test_a_figure_that_will_not_be_is_refused_before_anything_is_trained(figure, near):
    made = trainer([EarlyStopping(figure=figure)], metrics=[Accuracy()])
    told = f"no figure '{figure}', there are train_loss, train_accuracy, valid_loss, .*; did you mean '{near}'"
    with pytest.raises(ValueError, match=told):
        made.fit(loader(), loader(), epochs=1)
    assert made.n_steps == 0


def test_figures_of_classes_and_of_other_callbacks_can_be_followed():
    trainer([EarlyStopping(figure="valid_recall_1")], metrics=[Recall(average=None)]).fit(loader(), loader(), epochs=1)

    class Adding(Callback):
        def on_epoch(self, trainer, record):
            record["perplexity"] = 2.0

    trainer([Adding(), EarlyStopping(figure="perplexity")]).fit(loader(), epochs=1)
    with pytest.raises(ValueError, match=r"there is no figure 'perplexty'.*did you mean 'perplexity'"):
        trainer([Adding(), EarlyStopping(figure="perplexty")]).fit(loader(), epochs=1)
    made = trainer([EarlyStopping(figure="valid_confusion_matrix")], metrics=[ConfusionMatrix()])
    with pytest.raises(ValueError, match="no figure 'valid_confusion_matrix'"):
        made.fit(loader(), loader(), epochs=1)


def test_metrics_say_themselves_whether_more_is_better():
    stopping = EarlyStopping(figure="valid_accuracy")
    trainer([stopping], metrics=[Accuracy()]).fit(loader(), loader(), epochs=1)
    assert stopping.mode == "max"
    assert 0 <= stopping.best <= 1

    class Ones(Metric):
        def reset(self):
            pass

        def update(self, y_true, y_pred, mask=None):
            return self

        def compute(self):
            return 1.0

    with pytest.raises(ValueError, match="say which train_ones is better, mode='min' or mode='max'"):
        trainer([EarlyStopping(figure="train_ones")], metrics=[Ones()]).fit(loader(), epochs=1)


def test_a_figure_in_the_place_of_another_argument_is_noticed():
    with pytest.raises(TypeError, match=r"the figure comes second: EarlyStopping\(3, 'valid_loss'\)"):
        EarlyStopping("valid_loss")
    with pytest.raises(ValueError, match=r"looks like a figure: KeepBest\(figure='valid_accuracy'\)"):
        KeepBest("valid_accuracy")


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
