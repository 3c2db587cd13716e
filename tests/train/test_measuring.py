"""What metrics are fed with follows from the loss."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import metrics, nn
from extempo.nn import functional as F

from .small_networks import loader, network, points, trainer


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
