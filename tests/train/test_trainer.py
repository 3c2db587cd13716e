"""The training loop: what it does with models, losses, batches and metrics of all kinds."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import extempo as ex
from extempo import metrics, nn, optim
from extempo.errors import ShapeError
from extempo.nn import functional as F
from extempo.train import Trainer

from .small_networks import equal, loader, network, points, trainer, weights

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


# ---- batches


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


def test_losses_that_are_no_number_are_refused():
    with pytest.raises(ValueError, match=r"must give one number, got shape \(8,\); use reduction='mean'"):
        trainer(loss=nn.CrossEntropyLoss(reduction="none")).fit(loader(), epochs=1)
    with pytest.raises(TypeError, match="must give a tensor with one number, got float"):
        trainer(loss=lambda output, target: 0.5).fit(loader(), epochs=1)


# ---- metrics


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
    for epochs in (-1, 1.5, "3"):
        with pytest.raises(ValueError, match="whole number of epochs"):
            made.fit(loader(), epochs=epochs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": optim.SGD}, r"optimizer is the class SGD; make one first"),
        ({"loss": nn.CrossEntropyLoss}, r"loss is the class CrossEntropyLoss; make one first"),
        ({"scheduler": optim.lr_scheduler.StepLR}, "scheduler is the class StepLR; make one first"),
        ({"metrics": ["accuracy"]}, "must be from ex.metrics, got 'accuracy'"),
        ({"metrics": "accuracy"}, "must be from ex.metrics, got 'accuracy'"),
        ({"metrics": {"a": metrics.Accuracy}}, "must be from ex.metrics"),
        ({"clip_grad_norm": 0.0}, "must be above 0"),
        ({"loss": "cross_entropy"}, "loss must be a function loss.output, target., such as .* got 'cross_entropy'"),
        ({"optimizer": 0.1}, "optimizer must be an optimizer of the model's parameters, such as .*, got 0.1"),
        ({"scheduler": "cosine"}, "scheduler must be a scheduler of optim.lr_scheduler, or None, got 'cosine'"),
        ({"batch": 32}, "the size of batches is DataLoader's batch_size, got 32"),
        ({"predictions": 1}, "predictions must be a function of the model's output, or None, got 1"),
        ({"accumulate": 1.5}, "accumulate must be a whole number of at least 1, got 1.5"),
    ],
)
def test_arguments_that_cannot_work_are_refused_at_once(options, message):
    model = network()
    given = {"loss": F.cross_entropy, "optimizer": optim.SGD(model.parameters(), lr=0.1), **options}
    with pytest.raises((TypeError, ValueError), match=message):
        Trainer(model, **given)


def test_swapped_arguments_are_put_in_words():
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    order = r"; the order is Trainer\(model, loss, optimizer, metrics\)"
    with pytest.raises(TypeError, match=f"loss must be a function .*, got SGD{order}"):
        Trainer(model, optimizer, F.cross_entropy)
    with pytest.raises(TypeError, match=f"model must be an nn.Module, got the function cross_entropy{order}"):
        Trainer(F.cross_entropy, model, optimizer)
    with pytest.raises(TypeError, match=r"model must be an nn\.Module, got None$"):
        Trainer(None, F.cross_entropy, optimizer)


def test_a_number_of_epochs_in_the_place_of_validation_is_noticed():
    with pytest.raises(TypeError, match="valid must be an iterable of batches, got int; did you mean epochs=10"):
        trainer().fit(loader(), 10)


def test_a_confusion_matrix_is_shown_when_training_ends_and_is_no_column(capsys):
    made = trainer(metrics=[metrics.ConfusionMatrix(), metrics.Accuracy()], progress=True)
    history = made.fit(loader(), loader(), epochs=2)
    told = capsys.readouterr().out
    table = history.tables["valid_confusion_matrix"]
    assert told.endswith(f"valid confusion matrix, epoch 2:\n{table}\n")
    assert table.matrix.sum() == len(loader().dataset)
    assert str(table) in str(history)
    assert "predicted" in history._repr_html_()
    assert history.figures == ["train_loss", "valid_loss", "train_accuracy", "valid_accuracy"]
    alone = trainer(metrics=[metrics.ConfusionMatrix()])
    assert list(alone.fit(loader(), epochs=1).tables) == ["train_confusion_matrix"]


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


def test_an_array_is_one_batch_for_predict():
    made = trainer()
    x = ex.randn(6, 5)
    assert ex.equal(made.predict(x.numpy()), made.predict(x))


def test_other_metrics_than_the_trainer_s_can_be_evaluated():
    model = ex.nn.Linear(2, 2)
    trainer = ex.train.Trainer(
        model, ex.nn.functional.cross_entropy, ex.optim.SGD(model.parameters(), lr=0.1), progress=False
    )
    data = [(ex.ones(4, 2), ex.tensor([0, 0, 0, 0]))]
    found = trainer.evaluate(data, metrics={"share": ex.metrics.Accuracy()})
    assert found["share"] in (0.0, 1.0)
    assert set(trainer.evaluate(data)) == {"loss"}


def test_validation_tells_of_its_outputs_where_somebody_listens():
    model = ex.nn.Linear(2, 2)
    trainer = ex.train.Trainer(
        model, ex.nn.functional.cross_entropy, ex.optim.SGD(model.parameters(), lr=0.1), progress=False
    )
    data = [(ex.ones(4, 2), ex.tensor([0, 0, 0, 0]))]
    told = []
    trainer.on_validated = lambda target, output: told.append((tuple(target.shape), tuple(output.shape)))
    trainer.fit(data, data, epochs=2)
    assert told == [((4,), (4, 2))] * 2
    assert trainer.loaders == (data, data)
    assert trainer.figures_so_far() == {}
