"""Metrics with clumsy input, merging, names; intervals; the confusion matrix as text and as a picture."""

from __future__ import annotations

import math
import xml.dom.minidom

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


def test_calibration_error_by_hand():
    # Two bins: confidences 0.6 and 0.6 with one right (0.5), 0.9 with none right.
    m = M.CalibrationError(10).update([1, 0, 0], [0.6, 0.6, 0.9])
    assert m.compute() == pytest.approx((abs(1.2 - 1) + abs(0.9 - 0)) / 3)


def test_intervals_hold_the_share_as_often_as_they_say():
    rng = np.random.RandomState(0)
    for p, n in ((0.12, 50), (0.5, 20), (0.95, 200)):
        counts = rng.binomial(n, p, 2000)
        held = np.mean([low <= p <= high for low, high in (M.interval(c, n) for c in counts)])
        assert 0.92 < held < 0.98
    assert M.interval(0, 0) == (0.0, 1.0)


def test_the_matrix_as_text_and_as_a_picture():
    m = M.ConfusionMatrix(names=["cat", "dog & <fox>"]).update([0, 0, 1], [0, 1, 1])
    lines = str(m).splitlines()
    assert lines[1].split()[0] == "true"
    assert lines[2].split() == ["cat", "1", "1"]
    picture = m.svg()
    xml.dom.minidom.parseString(str(picture))
    assert "cat taken for dog &amp; &lt;fox&gt;: 1 (50% of cat)" in str(picture)
    assert m._repr_html_().startswith("<svg")
    assert str(M.ConfusionMatrix()) == "no samples yet"
    xml.dom.minidom.parseString(str(M.ConfusionMatrix().svg()))


def test_a_large_matrix_is_told_in_a_line():
    m = M.ConfusionMatrix().update(list(range(50)), list(range(50)))
    assert str(m) == "50 classes, 50 samples, 50 of them on the diagonal; see .svg()"
    xml.dom.minidom.parseString(str(m.svg()))


@pytest.mark.parametrize("n_classes", [2, 7, 20])
def test_the_text_of_a_matrix_fits_80_columns_and_has_every_count(n_classes):
    counts = np.arange(n_classes**2).reshape(n_classes, n_classes) + 100
    m = M.ConfusionMatrix(names=[f"a name of a class of more than twenty-four letters {i}" for i in range(n_classes)])
    m.matrix = counts
    lines = str(m).splitlines()
    assert max(map(len, lines)) <= 80
    told = {int(word) for line in lines for word in line.split() if word.isdigit()}
    assert set(counts.reshape(-1).tolist()) <= told


def test_names_in_the_picture_of_a_matrix_do_not_run_into_each_other():
    m = M.ConfusionMatrix(names=["cat", "a rather long name of a class"]).update([0, 1], [0, 1])
    names = xml.dom.minidom.parseString(str(m.svg())).getElementsByTagName("text")
    columns = [n for n in names if n.getAttribute("text-anchor") == "middle" and n.firstChild.data.endswith("…")]
    assert columns
    assert all(7 * len(n.firstChild.data) <= 104 for n in columns)


@pytest.mark.parametrize("scores", [np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), None])
def test_a_threshold_counts_also_where_both_classes_have_a_score(scores):
    p = np.array([0.1, 0.4, 0.8])
    scores = np.stack([np.log(1 - p) + 3, np.log(p) + 3], 1) if scores is None else scores
    assert M.Accuracy().update([0, 1, 1], scores).compute() == pytest.approx(2 / 3)
    assert M.Accuracy(threshold=0.3).update([0, 1, 1], scores).compute() == 1.0
    assert M.Recall("binary", threshold=0.9).update([0, 1, 1], scores).compute() == 0.0


def test_labels_of_sequences_are_ranked_like_those_of_their_steps():
    rng = np.random.RandomState(0)
    truth, scores = rng.randint(0, 2, (4, 6, 3)), rng.rand(4, 6, 3)
    for metric in (M.ROCAUC, M.PRAUC):
        flat = metric(None).update(truth.reshape(-1, 3), scores.reshape(-1, 3)).compute()
        np.testing.assert_allclose(metric(None).update(truth, scores).compute(), flat)


def test_matrices_of_other_sizes_and_names_are_merged():
    a = M.ConfusionMatrix(2, names=["x", "y"]).update([0, 1], [0, 1])
    assert a.merge(M.ConfusionMatrix().update([2], [1])).compute().tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]
