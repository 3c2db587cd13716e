"""The training loop: what it does with models, losses, batches and metrics of all kinds."""

from __future__ import annotations

import io
import math
import sys
import warnings

import numpy as np
import pytest

import extempo as ex
from extempo import metrics, nn, optim
from extempo.data import DataLoader, TensorDataset
from extempo.errors import ShapeError
from extempo.nn import functional as F
from extempo.train import Callback, Trainer, progress


def points(n=48, n_classes=3):
    generator = ex.Generator().manual_seed(0)
    x = ex.randn(n, 5, generator=generator)
    return x, (x @ ex.randn(5, n_classes, generator=generator)).argmax(1)


def loader(n=48, batch_size=8, **options):
    return DataLoader(TensorDataset(*points(n)), batch_size, **options)


def network(seed=1, n_out=3):
    ex.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, n_out))


def trainer(model=None, loss=F.cross_entropy, lr=0.05, **options):
    model = model or network()
    return Trainer(model, loss, optim.Adam(model.parameters(), lr=lr), **{"progress": False, **options})


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


def equal(a, b):
    return all(ex.equal(x, y) for x, y in zip(a, b, strict=True))


# ---- the loop


def test_it_has_the_bits_of_the_loop_that_everybody_writes():
    model = network()
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    for _ in range(3):
        for x, y in loader(shuffle=True):
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    made = trainer()
    made.fit(loader(shuffle=True), epochs=3)
    assert equal(weights(model), weights(made.model))


def test_it_learns_and_its_history_has_all_figures():
    made = trainer(metrics=[metrics.Accuracy(), metrics.F1()])
    history = made.fit(loader(shuffle=True), loader(24), epochs=12)
    assert list(history.records[0]) == [
        *("epoch", "train_loss", "train_accuracy", "train_f1", "valid_loss", "valid_accuracy", "valid_f1"),
        *("seconds", "samples_per_second", "peak_bytes", "lr"),
    ]
    assert history["epoch"] == list(range(1, 13))
    assert history["valid_accuracy"][-1] > 0.9
    assert history["train_loss"][-1] < 0.5 * history["train_loss"][0]
    x, y = points(24)
    assert history["valid_accuracy"][-1] == (made.model(x).argmax(1) == y).float().mean().item()
    assert history["valid_loss"][-1] == pytest.approx(F.cross_entropy(made.model(x), y).item())


def test_compiled_and_eager_training_have_the_same_bits():
    results = []
    for compiled in (True, False):
        made = trainer(compile=compiled, clip_grad_norm=0.5, accumulate=2)
        made.fit(loader(shuffle=True), epochs=4)
        results.append(weights(made.model))
    assert equal(*results)


def test_fit_goes_on_from_where_it_was():
    made, whole = trainer(), trainer()
    made.fit(loader(), epochs=2)
    made.fit(loader(), epochs=5)
    whole.fit(loader(), epochs=5)
    assert made.epoch == 5
    assert equal(weights(made.model), weights(whole.model))


def test_accumulated_batches_are_as_good_as_large_ones_also_in_a_last_group_that_is_not_full():
    small, large = trainer(accumulate=4, loss=F.cross_entropy), trainer()
    small.fit(loader(40, 4), epochs=2)  # ten batches: groups of 4, 4 and 2
    large.fit(loader(40, 16), epochs=2)  # of 16, 16 and 8
    assert small.n_steps == large.n_steps == 6
    for a, b in zip(weights(small.model), weights(large.model), strict=True):
        assert ex.allclose(a, b, atol=1e-5)


def test_gradients_are_clipped_to_the_norm():
    model = network()
    before = weights(model)
    made = Trainer(model, F.cross_entropy, optim.SGD(model.parameters(), lr=1.0), clip_grad_norm=0.01, progress=False)
    made.fit(loader(8), epochs=1)
    moved = math.sqrt(sum((a - b).pow(2).sum().item() for a, b in zip(before, weights(model), strict=True)))
    assert moved == pytest.approx(0.01, rel=1e-3)


def test_schedules_go_by_epochs_or_by_steps():
    for every, factor in (("epoch", 0.5**2), ("step", 0.5**12)):
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=1e-3)
        schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        made = Trainer(model, F.cross_entropy, optimizer, scheduler=schedule, scheduler_every=every, progress=False)
        made.fit(loader(), epochs=2)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-3 * factor)
    assert made.history["lr"] == pytest.approx([1e-3 * 0.5**6, 1e-3 * 0.5**12])


def test_reduce_on_plateau_gets_the_validation_loss():
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    made = Trainer(model, F.cross_entropy, optimizer, scheduler=schedule, progress=False)
    made.fit(loader(), loader(16), epochs=2)
    assert schedule.best == made.history["valid_loss"][0]
    assert schedule.num_bad_epochs == 0, "it was bad once, and the rate was lowered"
    with pytest.raises(ValueError, match="mode must be 'min'"):
        trainer(scheduler=optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max"))


def test_frozen_parameters_stay_and_groups_have_their_own_rates():
    model = network()
    model[0].requires_grad_(False)
    before = weights(model)
    optimizer = optim.SGD([{"params": [model[2].weight], "lr": 0.1}, {"params": [model[2].bias], "lr": 0.0}])
    Trainer(model, F.cross_entropy, optimizer, progress=False).fit(loader(), epochs=1)
    same = [ex.equal(a, b) for a, b in zip(before, weights(model), strict=True)]
    assert same == [True, True, False, True]


def test_modes_of_modules_are_respected():
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))
    model[1].eval()  # statistics that shall stay
    made = trainer(model)
    before = model[1].running_mean.clone()
    made.fit(loader(), loader(16), epochs=2)
    assert ex.equal(model[1].running_mean, before)
    assert [m.training for m in model] == [True, False, True, True]
    model.eval()
    seen = []
    made.callbacks = [Modes(seen)]
    made.fit(loader(), epochs=3)
    assert all(seen)
    assert not model.training


class Modes(Callback):
    def __init__(self, seen):
        self.seen = seen

    def on_step(self, trainer, loss):
        self.seen.append(trainer.model[2].training)


# ---- batches


def test_batches_may_be_dicts_whose_entries_are_arguments():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(5, 3)

        def forward(self, shift, x):
            return self.out(x + shift)

    x, y = points(8)
    batch = {"x": x, "target": y, "shift": 0.0}
    ex.manual_seed(0)
    made = trainer(Model(), metrics=[metrics.Accuracy()])
    made.fit([batch], [batch], epochs=30)
    assert made.evaluate([batch])["accuracy"] > 0.7
    assert made.predict([batch]).shape == (8, 3)
    with pytest.raises(ValueError, match=r"needs inputs and the entry 'target', got \['x'\]"):
        made.fit([{"x": x}], epochs=31)


class OneSequence(nn.Module):
    """Written for one sequence of any length: is its sum large?"""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.cell = nn.GRUCell(4, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, words):
        h = ex.zeros(8)
        for word in words:
            h = self.cell(self.embed(word), h)
        return self.out(h)


def sequences(n=24):
    draws = np.random.default_rng(0)
    rows = [draws.integers(0, 6, draws.integers(1, 6)).tolist() for _ in range(n)]
    return rows, [int(sum(row) > 7) for row in rows]


@pytest.mark.parametrize("kind", ["lists", "ragged", "one sample", "dict"])
def test_models_of_one_sample_are_trained_by_batching(kind):
    rows, labels = sequences()
    if kind == "lists":
        data = [(rows[i : i + 8], labels[i : i + 8]) for i in range(0, 24, 8)]
    elif kind == "ragged":
        data = [(ex.ragged(rows[i : i + 8]), ex.tensor(labels[i : i + 8])) for i in range(0, 24, 8)]
    elif kind == "dict":
        data = [{"words": rows[i : i + 8], "target": labels[i : i + 8]} for i in range(0, 24, 8)]
    else:
        data = [([row], [label]) for row, label in zip(rows, labels, strict=True)]
    ex.manual_seed(2)
    made = trainer(OneSequence(), batch=True, metrics=[metrics.Accuracy()], lr=0.03)
    history = made.fit(data, data, epochs=8 if kind == "one sample" else 20)
    assert history["valid_accuracy"][-1] > 0.9
    outputs = made.predict(data)
    assert len(outputs) == 24
    right = [int(output.argmax().item() == label) for output, label in zip(outputs, labels, strict=True)]
    assert sum(right) / 24 == history["valid_accuracy"][-1]


def test_tags_of_sequences_are_measured_one_after_the_other():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(6, 2)

        def forward(self, words):
            return self.embed(ex.tensor(words))

    rows, _ = sequences(8)
    tags = [[word % 2 for word in row] for row in rows]

    def loss(scores, tags):
        return F.cross_entropy(scores, ex.tensor(tags))

    made = trainer(Tagger(), loss, batch=True, metrics=[metrics.Accuracy()], lr=0.3)
    history = made.fit([(rows, tags)], epochs=10)
    assert history["train_accuracy"][-1] == 1.0


def test_ragged_batches_with_a_class_for_each_step():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(6, 3)

        def forward(self, words):
            return self.embed(words).transpose(1, 2)

    rows, _ = sequences(8)
    batch = ex.ragged(rows), ex.ragged([[word % 3 for word in row] for row in rows])
    made = trainer(Tagger(), metrics=[metrics.Accuracy(), metrics.LogLoss()], lr=0.5)
    figures = made.fit([batch], [batch], epochs=10).records[-1]
    assert figures["valid_accuracy"] == 1.0
    assert figures["valid_log_loss"] == pytest.approx(figures["valid_loss"], rel=1e-4)


def test_an_iterator_is_read_once_and_a_warning_says_so():
    batches = list(loader())
    made = trainer()
    made.fit(iter(batches), epochs=1)
    same = trainer()
    same.fit(batches, epochs=1)
    assert equal(weights(made.model), weights(same.model)), "no batch was lost"
    made = trainer()
    with pytest.warns(UserWarning, match="train is an iterator"):
        made.fit(iter(batches), epochs=3)
    assert made.epoch == 1
    assert "iterator" in made.stop
    with pytest.warns(UserWarning, match="valid is an iterator"):
        history = trainer().fit(batches, iter(batches[:2]), epochs=2)
    assert len(history["valid_loss"]) == 2
    assert not math.isnan(history["valid_loss"][1])


def test_data_without_a_length_is_fine():
    class Endless:
        def __iter__(self):
            return iter(list(loader()))

    made, same = trainer(), trainer()
    made.fit(Endless(), Endless(), epochs=2)
    same.fit(loader(), epochs=2)
    assert equal(weights(made.model), weights(same.model))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "train has no batches"),
        (DataLoader(TensorDataset(*points(4)), 8, drop_last=True), "drop_last"),
        (TensorDataset(*points(4)), r"DataLoader\(train"),
        (points(4)[0], "is a tensor"),
        (points(4), r"expected batches \(inputs\.\.\., target\), got Tensor"),
        (3, "iterable of batches, got int"),
        (points, "got function; call it"),
    ],
)
def test_data_that_is_none_is_refused_before_anything_is_trained(data, message):
    made = trainer()
    before = weights(made.model)
    with pytest.raises((TypeError, ValueError), match=message):
        made.fit(data, epochs=1)
    assert equal(before, weights(made.model))


def test_a_generator_without_batches_is_an_error_too():
    with pytest.raises(ValueError, match="no batches in train"):
        trainer().fit((batch for batch in ()), epochs=1)


def test_losses_that_are_no_number_are_refused():
    with pytest.raises(ValueError, match=r"must give one number, got shape \(8,\); use reduction='mean'"):
        trainer(loss=nn.CrossEntropyLoss(reduction="none")).fit(loader(), epochs=1)
    with pytest.raises(TypeError, match="must give a tensor with one number, got float"):
        trainer(loss=lambda output, target: 0.5).fit(loader(), epochs=1)


# ---- metrics


def test_metrics_of_probabilities_get_probabilities():
    made = trainer(metrics={"log_loss": metrics.LogLoss(), "auc": metrics.ROCAUC(), "brier": metrics.Brier()})
    figures = made.fit(loader(), loader(), epochs=1).records[-1]
    assert figures["valid_log_loss"] == pytest.approx(figures["valid_loss"], rel=1e-4)
    x, y = points()
    p = made.model(x).softmax(1).detach()
    assert figures["valid_auc"] == metrics.ROCAUC().update(y, p).compute()


def test_binary_losses_of_logits():
    x, y = points()
    y = (y == 0).float()
    data = [(x, y)]
    for loss in (F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss()):
        model = nn.Sequential(network(n_out=1), nn.Flatten(0))
        made = trainer(model, loss, metrics=[metrics.Accuracy(), metrics.ROCAUC(), metrics.LogLoss()])
        figures = made.fit(data, data, epochs=40).records[-1]
        assert figures["valid_accuracy"] > 0.9
        assert figures["valid_accuracy"] == ((model(x) > 0) == (y > 0)).float().mean().item()
        assert figures["valid_log_loss"] == pytest.approx(figures["valid_loss"], rel=1e-3)


def test_a_threshold_of_logits_is_refused_where_metrics_get_probabilities():
    with pytest.raises(ValueError, match="accuracy has threshold=0"):
        trainer(loss=nn.BCEWithLogitsLoss(), metrics=[metrics.Accuracy(threshold=0.0)])
    trainer(loss=nn.BCEWithLogitsLoss(), metrics=[metrics.Accuracy(threshold=0.0)], predictions=lambda output: output)


def test_classes_may_be_in_the_middle_and_ignored_targets_do_not_count():
    class Convolution(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(1, 3, 1)

        def forward(self, x):
            return self.conv(x)  # (batch, classes, time)

    ex.manual_seed(0)
    x = ex.randn(6, 1, 7)
    y = (x[:, 0] > 0).long()
    y[:, 4:] = -100
    made = trainer(Convolution(), metrics=[metrics.Accuracy(), metrics.ConfusionMatrix()])
    figures = made.fit([(x, y)], [(x, y)], epochs=1).records[-1]
    expected = (made.model(x).argmax(1) == y)[:, :4].float().mean().item()
    assert figures["valid_accuracy"] == pytest.approx(expected)
    assert "valid_confusion_matrix" not in figures
    assert made.evaluate([(x, y)])["confusion_matrix"].sum() == 6 * 4


def test_outputs_that_metrics_cannot_take_are_named_before_training():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(5, 3)

        def forward(self, x):
            return self.out(x), x

    def loss(output, target):
        return F.cross_entropy(output[0], target)

    ex.manual_seed(0)
    made = trainer(Two(), loss, metrics=[metrics.Accuracy()])
    with pytest.raises(ValueError, match="predictions=lambda output"):
        made.fit(loader(), epochs=1)
    assert made.n_steps == 0
    made = trainer(Two(), loss, metrics=[metrics.Accuracy()], predictions=lambda output: output[0])
    assert made.fit(loader(), epochs=1)["train_accuracy"][0] > 0
    scores, kept = made.predict(loader())
    assert scores.shape == (48, 3)
    assert kept.shape == (48, 5)


def test_figures_with_one_name_are_refused():
    with pytest.raises(ValueError, match="named 'f1'"):
        trainer(metrics=[metrics.F1(), metrics.F1("micro")])
    with pytest.raises(ValueError, match="named 'loss'"):
        trainer(metrics={"loss": metrics.MSE()})
    with pytest.raises(TypeError, match="Accuracy"):
        trainer(metrics=[metrics.Accuracy])
    figures = trainer(metrics={"a": metrics.F1(), "b": metrics.F1(None)}).fit(loader(), epochs=1).records[0]
    assert {"train_a", "train_b_0", "train_b_1", "train_b_2"} <= figures.keys()


def test_evaluate_and_predict_leave_modes_metrics_and_weights_alone():
    model = nn.Sequential(network(), nn.Dropout(0.9))
    accuracy = metrics.Accuracy()
    made = trainer(model, metrics=[accuracy])
    model[0].eval()
    accuracy.update([0, 1], [0, 0])
    before = weights(model)
    assert set(made.evaluate(loader())) == {"loss", "accuracy"}
    assert made.evaluate(loader()) == made.evaluate(loader()), "no dropout"
    assert accuracy.compute() == 0.5
    assert model.training
    assert not model[0].training
    assert not model[0][0].training
    x, _ = points()
    assert ex.equal(made.predict(x), model[0](x))
    assert ex.equal(made.predict(loader()), made.predict([(x,)]))
    assert ex.equal(made.predict([(x,)], has_target=False), made.predict(x))
    assert not made.predict(x).requires_grad
    assert equal(before, weights(model))
    with pytest.raises(RuntimeError):
        made.evaluate([(ex.ones(2, 7), ex.tensor([0, 1]))])
    assert model.training


# ---- what is shown


def test_epochs_are_lines_of_at_most_80_columns(capsys):
    many = {f"a_metric_with_a_long_name_{i}": metrics.Accuracy() for i in range(5)}
    trainer(metrics=many, progress=True).fit(loader(), loader(), epochs=2)
    out = capsys.readouterr().out
    assert out.count("epoch ") == 2
    assert "(valid " in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_bar_is_shown_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    shown = {}
    for kind in (io.StringIO, Terminal):
        stream = kind()
        monkeypatch.setattr(sys, "stderr", stream)
        trainer(progress=True).fit(loader(), loader(), epochs=1)
        shown[kind] = stream.getvalue()
    assert shown[io.StringIO] == ""
    assert "epoch 1" in shown[Terminal]
    assert "samples/s" in shown[Terminal]


def test_the_bar_is_gone_when_a_step_raises(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    class Failing(Callback):
        def on_step(self, trainer, loss):
            if trainer.n_steps == 3:
                raise OSError("disk full")

    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    stopped = []
    monkeypatch.setattr(progress.Bar, "__exit__", lambda bar, *raised: stopped.append(raised[0]))
    with pytest.raises(OSError, match="disk full"):
        trainer(progress=True, callbacks=[Failing()]).fit(loader(), epochs=1)
    assert stopped == [OSError]


def test_a_healthy_model_gets_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer(metrics=[metrics.Accuracy()]).fit(loader(shuffle=True), loader(), epochs=1)


# ---- what is seldom meant


def test_a_fit_that_trains_nothing_says_so():
    made = trainer()
    made.fit(loader(), epochs=2)
    with pytest.warns(UserWarning, match=r"2 epochs are done, so there is nothing to train; fit\(\.\.\., epochs=4\)"):
        made.fit(loader(), epochs=2)
    for epochs in (-1, 1.5):
        with pytest.raises(ValueError, match="whole number of epochs"):
            made.fit(loader(), epochs=epochs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": optim.SGD}, r"optimizer is the class SGD; make one first"),
        ({"loss": nn.CrossEntropyLoss}, r"loss is the class CrossEntropyLoss; make one first"),
        ({"scheduler": optim.lr_scheduler.StepLR}, "scheduler is the class StepLR; make one first"),
        ({"metrics": ["accuracy"]}, "must be from ex.metrics, got 'accuracy'"),
        ({"metrics": {"a": metrics.Accuracy}}, "must be from ex.metrics"),
        ({"clip_grad_norm": 0.0}, "must be above 0"),
    ],
)
def test_arguments_that_cannot_work_are_refused_at_once(options, message):
    model = network()
    given = {"loss": F.cross_entropy, "optimizer": optim.SGD(model.parameters(), lr=0.1), **options}
    with pytest.raises((TypeError, ValueError), match=message):
        Trainer(model, **given)


@pytest.mark.parametrize("batch", [False, True])
def test_a_batch_without_samples_is_an_error_in_training_and_nothing_in_validation(batch):
    x, y = points(8)
    whole, empty = (x, y), (x[:0], y[:0])
    with pytest.raises(ShapeError, match="step 2, epoch 1: a batch without samples"):
        trainer(batch=batch).fit([whole, empty], epochs=1)
    with_empty = trainer(batch=batch, metrics=[metrics.Accuracy()]).fit([whole], [empty, whole], epochs=1)
    without = trainer(batch=batch, metrics=[metrics.Accuracy()]).fit([whole], [whole], epochs=1)
    assert with_empty["valid_loss"] == without["valid_loss"]
    assert with_empty["valid_accuracy"] == without["valid_accuracy"]


def test_modules_are_left_in_the_mode_they_were_in(capsys):
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 3))
    for training, of_dropout in ((True, False), (False, True)):
        made = trainer(model)
        model.train(training)
        model[2].train(of_dropout)
        modes = [module.training for module in model.modules()]
        for look in (
            lambda made=made: made.fit(loader(), loader(), epochs=1),
            lambda made=made: made.evaluate(loader()),
            lambda made=made: made.predict(loader()),
            lambda made=made: made.find_lr(loader(), steps=3),
            lambda made=made: made.overfit(next(iter(loader())), steps=2),
        ):
            look()
            assert [module.training for module in model.modules()] == modes
