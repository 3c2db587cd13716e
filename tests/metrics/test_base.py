"""Metrics with clumsy input, merging, names; intervals; the confusion matrix as text and as a picture."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo import metrics as M
from extempo.errors import DtypeError, IndexRangeError, ShapeError

ALL = [M.Accuracy, M.BalancedAccuracy, M.Brier, M.CalibrationError, M.CohenKappa, M.F1, M.LogLoss, M.MAE, M.MCC, M.MSE,
       M.PRAUC, M.Precision, M.R2, M.RMSE, M.ROCAUC, M.Recall, M.Specificity]  # fmt: skip


@pytest.mark.parametrize("metric", ALL)
def test_nothing_seen_is_nan_and_an_empty_batch_changes_nothing(metric):
    m = metric()
    assert math.isnan(m.compute())
    m.update([0, 1, 1], [0, 1, 0])
    before = m.compute()
    m.update(ex.tensor([], dtype=ex.int64), ex.tensor([]))
    assert m.compute() == before
    m.reset()
    assert math.isnan(m.compute())


@pytest.mark.parametrize("metric", ALL)
def test_a_call_gives_the_figure_of_the_batch_and_keeps_it(metric):
    m = metric()
    alone = m([0, 1, 1, 0], [0, 1, 0, 0])
    assert alone == metric().update([0, 1, 1, 0], [0, 1, 0, 0]).compute()
    m([1, 0], [1, 1])
    assert m.compute() == pytest.approx(metric().update([0, 1, 1, 0, 1, 0], [0, 1, 0, 0, 1, 1]).compute())


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: M.Accuracy().update([0, 1], [0, 1, 1]), ShapeError, "do not fit"),
        (lambda: M.Accuracy().update([0, -1], [0, 1]), IndexRangeError, "mask"),
        (lambda: M.Accuracy().update([0, 1], [0.3, 7.2]), DtypeError, "sigmoid"),
        (lambda: M.Accuracy().update([0, 1], [math.nan, 0.2]), DtypeError, "nan"),
        (lambda: M.Accuracy().update(["a"], ["b"]), DtypeError, "number the classes"),
        (lambda: M.Accuracy().update([[0, 1], [0]], [0, 1]), ShapeError, "ex.ragged"),
        (lambda: M.Accuracy(top_k=0), ShapeError, "top_k"),
        (lambda: M.Accuracy(top_k=2).update([0], [1]), ShapeError, "scores for each class"),
        (lambda: M.Precision("mean"), ShapeError, "average"),
        (lambda: M.Precision().merge(M.Recall()), DtypeError, "merge"),
        (lambda: M.LogLoss().update([0], [3.0]), DtypeError, "softmax"),
        (lambda: M.LogLoss().update([0], [[0.2, 0.2]]), DtypeError, "sum to"),
        (lambda: M.ROCAUC().update([0, 2], [0.1, 0.3]), ShapeError, "score for each"),
        (lambda: M.MSE().update([[1.0], [2.0]], [1.0, 2.0]), ShapeError, "do not fit"),
        (lambda: M.MSE().update([1.0, 2.0], [[1.0], [2.0]]), ShapeError, "broadcast"),
        (lambda: M.Accuracy().update([0, 1], [0, 1], mask=[True]), ShapeError, "mask"),
        (lambda: M.ConfusionMatrix().update([0], [123456789]), ShapeError, "number the classes"),
        (lambda: M.threshold_for_recall([0, 1], [0.1, 0.2], 1.5), ShapeError, "recall"),
        (lambda: M.threshold_for_recall([0, 1], [0.1, math.nan], 0.5), DtypeError, "nan"),
        (lambda: M.Accuracy().update([0, 1], [[0.2], [0.9]]), ShapeError, r"squeeze\(-1\)"),
        (lambda: M.LogLoss().update([0, 1], [[0.2], [0.9]]), ShapeError, r"squeeze\(-1\)"),
        (lambda: M.Accuracy().update([0, 1], np.zeros((2, 3, 2))), ShapeError, "do not fit"),
        (lambda: M.Accuracy().update([0, 2], [[0.2, 0.8], [0.9, 0.1]]), IndexRangeError, "class 2 .* 2 classes"),
        (lambda: M.Accuracy(2).update([0, 3], np.eye(3)[:2]), IndexRangeError, "class 3 .* 3 classes"),
        (lambda: M.LogLoss().update([0, 2], [0.2, 0.8]), IndexRangeError, "class 2 .* 2 classes"),
        (lambda: M.ROCAUC().update([0, 3], np.eye(3)[:2]), IndexRangeError, "class 3 .* 3 classes"),
        (lambda: M.Accuracy(2).update([0], [[0.1, math.nan, 0.2]]), DtypeError, "nan"),
        (lambda: M.Accuracy().update([0], [math.inf]), DtypeError, "infinite"),
        (lambda: M.Accuracy().update([0, math.nan], [0, 1]), DtypeError, "such as nan"),
        (lambda: M.LogLoss().update([0.7, 1.0], [0.2, 0.8]), DtypeError, "such as 0.7"),
        (lambda: M.LogLoss().update([0, 1], [math.nan, 0.8]), DtypeError, "are nan"),
        (lambda: M.Accuracy(threshold=0.3).update([0], [[0.2, 0.2, 0.6]]), ShapeError, "two classes"),
        (lambda: M.F1(multilabel=True).update([[0, 2]], [[0, 1]]), DtypeError, "0 and 1, got 2"),
        (lambda: M.F1(multilabel=True).update([[0, math.nan]], [[0, 1]]), DtypeError, "0 and 1, got nan"),
        (lambda: M.Accuracy(multilabel=True).update([0, 1], [0, 1]), ShapeError, "samples, labels"),
        (lambda: M.MCC(multilabel=True), TypeError, "multilabel"),  # as scikit-learn
        (lambda: M.ROCAUC().update([0, 1], [[3.0, 1.0], [0.0, 2.0]]), DtypeError, "softmax"),
        (lambda: M.MSE().update([1.0], [1j]), DtypeError, "complex"),
        (
            lambda: M.R2().update(np.ones((2, 3)), np.ones((2, 3))).update(np.ones((2, 4)), np.ones((2, 4))),
            ShapeError,
            "4 outputs for each sample, before there were 3; .* mask",
        ),
        (
            lambda: M.RMSE().update([1.0], [1.0]).merge(M.RMSE().update(np.ones((2, 4)), np.ones((2, 4)))),
            ShapeError,
            "4 outputs",
        ),
        (lambda: M.Accuracy().update((i for i in (0, 1)), [0, 1]), DtypeError, "got generator"),
        (lambda: M.FBeta(2.0).merge(M.FBeta(0.5)), DtypeError, "beta=2.0, the other beta=0.5"),
        (lambda: M.CalibrationError(5).merge(M.CalibrationError(9)), DtypeError, "n_bins=5"),
        (
            lambda: (
                M.F1(multilabel=True)
                .update([[0, 1]], [[0, 1]])
                .merge(M.F1(multilabel=True).update([[0, 1, 1]], [[0, 1, 1]]))
            ),
            ShapeError,
            "3 labels, before there were 2",
        ),
        (
            lambda: M.ROCAUC().update([0, 1], [0.2, 0.3]).merge(M.ROCAUC().update([0, 1], np.full((2, 4), 0.25))),
            ShapeError,
            r"shape \(2, 4\)",
        ),
    ],
)
def test_errors_say_what_to_do(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_failed_update_leaves_the_figure_as_it_was():
    m = M.F1()
    m.update([0, 1], [0, 1])
    with pytest.raises(IndexRangeError):
        m.update([0, -3], [0, 1])
    assert m.compute() == 1.0
