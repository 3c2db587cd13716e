"""Every figure equals scikit-learn's, fed at once, in batches, and merged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo import metrics as M

sk = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed: its figures are the reference")

pytestmark = pytest.mark.filterwarnings("ignore")


@st.composite
def classified(draw, n_classes=None, least=1):
    n = draw(st.integers(least, 60))
    k = n_classes or draw(st.integers(2, 6))
    rng = np.random.RandomState(draw(st.integers(0, 2**31 - 1)))
    return rng.randint(0, k, n), rng.randint(0, k, n), k, rng


def fed(metric, truth, found, rng):
    """In one go, in batches, and as the merger of two; all must agree."""
    whole = metric().update(truth, found).compute()
    cuts = np.sort(rng.randint(0, len(truth) + 1, 2))
    pieces = list(zip(np.split(np.asarray(truth), cuts), np.split(np.asarray(found), cuts), strict=True))
    streamed, first, second = metric(), metric(), metric()
    for i, (t, f) in enumerate(pieces):
        streamed.update(t, f)
        (first if i % 2 else second).update(t, f)
    np.testing.assert_allclose(streamed.compute(), whole, atol=1e-12)
    np.testing.assert_allclose(first.merge(second).compute(), whole, atol=1e-12)
    return whole


@given(classified())
def test_accuracy_balanced_kappa_mcc_and_the_matrix(data):
    truth, found, k, rng = data
    assert fed(M.Accuracy, truth, found, rng) == pytest.approx(sk.accuracy_score(truth, found))
    assert fed(M.BalancedAccuracy, truth, found, rng) == pytest.approx(sk.balanced_accuracy_score(truth, found))
    assert fed(M.MCC, truth, found, rng) == pytest.approx(sk.matthews_corrcoef(truth, found), abs=1e-9)
    np.testing.assert_allclose(fed(M.CohenKappa, truth, found, rng), sk.cohen_kappa_score(truth, found), atol=1e-9)
    expected = sk.confusion_matrix(truth, found, labels=range(k))
    np.testing.assert_array_equal(fed(lambda: M.ConfusionMatrix(k), truth, found, rng), expected)


@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
@given(data=classified())
def test_averages(average, data):
    truth, found, _, rng = data
    options = {"average": average, "zero_division": 0}
    assert fed(lambda: M.Precision(average), truth, found, rng) == pytest.approx(
        sk.precision_score(truth, found, **options)
    )
    assert fed(lambda: M.Recall(average), truth, found, rng) == pytest.approx(sk.recall_score(truth, found, **options))
    assert fed(lambda: M.F1(average), truth, found, rng) == pytest.approx(sk.f1_score(truth, found, **options))
    assert fed(lambda: M.FBeta(2.0, average), truth, found, rng) == pytest.approx(
        sk.fbeta_score(truth, found, beta=2.0, **options)
    )


@given(classified())
def test_figures_of_each_class(data):
    truth, found, k, _ = data
    precision, recall, f1, _ = sk.precision_recall_fscore_support(truth, found, labels=range(k), zero_division=0)
    for metric, expected in ((M.Precision, precision), (M.Recall, recall), (M.F1, f1)):
        each = metric(None).update(truth, found).compute()
        np.testing.assert_allclose(each, expected[: len(each)], atol=1e-12)


@given(classified(2))
def test_specificity_is_the_recall_of_the_other_class(data):
    truth, found, _, rng = data
    assert fed(lambda: M.Specificity("binary"), truth, found, rng) == pytest.approx(
        sk.recall_score(truth, found, pos_label=0, zero_division=0) if found.max() or truth.max() else 0.0
    )


@given(classified(2, least=4))
def test_areas_of_two_classes(data):
    truth, _, _, rng = data
    truth[:2] = 0, 1
    scores = np.round(rng.rand(len(truth)), 1)  # with ties
    assert fed(M.ROCAUC, truth, scores, rng) == pytest.approx(sk.roc_auc_score(truth, scores))
    assert fed(M.PRAUC, truth, scores, rng) == pytest.approx(sk.average_precision_score(truth, scores))
    precision, recall, thresholds = sk.precision_recall_curve(truth, scores)
    for ours, theirs in zip(M.precision_recall_curve(truth, scores), (precision, recall, thresholds), strict=True):
        np.testing.assert_allclose(ours, theirs)
    ours, theirs = M.roc_curve(truth, scores), sk.roc_curve(truth, scores, drop_intermediate=False)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b)


@given(classified(4, least=8))
def test_areas_losses_and_top_k_of_several_classes(data):
    truth, _, k, rng = data
    truth[:k] = range(k)
    p = rng.dirichlet(np.ones(k), len(truth))
    assert fed(M.ROCAUC, truth, p, rng) == pytest.approx(sk.roc_auc_score(truth, p, multi_class="ovr"))
    assert M.ROCAUC("weighted").update(truth, p).compute() == pytest.approx(
        sk.roc_auc_score(truth, p, multi_class="ovr", average="weighted")
    )
    assert fed(M.LogLoss, truth, p, rng) == pytest.approx(sk.log_loss(truth, p, labels=range(k)), abs=1e-6)
    onehot = np.eye(k)[truth]
    assert fed(M.Brier, truth, p, rng) == pytest.approx(((p - onehot) ** 2).sum(1).mean())
    assert fed(lambda: M.Accuracy(top_k=2), truth, p, rng) == pytest.approx(
        sk.top_k_accuracy_score(truth, p, k=2, labels=range(k))
    )
    assert M.PRAUC().update(truth, p).compute() == pytest.approx(sk.average_precision_score(onehot, p))


@given(classified(2, least=2))
def test_probabilities_of_two_classes(data):
    truth, _, _, rng = data
    p = rng.rand(len(truth))
    assert fed(M.LogLoss, truth, p, rng) == pytest.approx(sk.log_loss(truth, p, labels=[0, 1]), abs=1e-6)
    assert fed(M.Brier, truth, p, rng) == pytest.approx(sk.brier_score_loss(truth, p, pos_label=1))
    assert fed(lambda: M.Precision("binary"), truth, p, rng) == pytest.approx(
        sk.precision_score(truth, p >= 0.5, zero_division=0)
    )


@given(classified(2, least=3))
def test_several_labels(data):
    _, _, _, rng = data
    truth, found = rng.randint(0, 2, (20, 3)), rng.randint(0, 2, (20, 3))
    for average in ("micro", "macro", "weighted"):
        for metric, reference in (
            (M.Precision, sk.precision_score),
            (M.Recall, sk.recall_score),
            (M.F1, sk.f1_score),
        ):
            ours = fed(lambda m=metric, a=average: m(a, multilabel=True), truth, found, rng)
            assert ours == pytest.approx(reference(truth, found, average=average, zero_division=0))
    assert M.Accuracy(multilabel=True).update(truth, found).compute() == pytest.approx(sk.accuracy_score(truth, found))
    scores = rng.rand(20, 3)
    if (truth.sum(0) > 0).all() and (truth.sum(0) < 20).all():
        assert M.ROCAUC().update(truth, scores).compute() == pytest.approx(sk.roc_auc_score(truth, scores))


@given(st.integers(2, 50), st.integers(0, 2**31 - 1))
def test_regression(n, seed):
    rng = np.random.RandomState(seed)
    truth, found = rng.randn(n) * 10 + 1e6, rng.randn(n) * 10 + 1e6
    assert fed(M.MAE, truth, found, rng) == pytest.approx(sk.mean_absolute_error(truth, found))
    assert fed(M.MSE, truth, found, rng) == pytest.approx(sk.mean_squared_error(truth, found))
    assert fed(M.RMSE, truth, found, rng) == pytest.approx(sk.mean_squared_error(truth, found) ** 0.5)
    assert fed(M.R2, truth, found, rng) == pytest.approx(sk.r2_score(truth, found), abs=1e-6)


def test_tensors_masks_and_ragged_sequences_count_the_same_elements():
    truth = ex.ragged([ex.tensor([0, 1, 2]), ex.tensor([1]), ex.tensor([], dtype=ex.int64)])
    scores = ex.ragged([ex.randn(3, 3), ex.randn(1, 3), ex.randn(0, 3)])
    expected = sk.f1_score(truth.values().numpy(), scores.values().numpy().argmax(1), average="macro", zero_division=0)
    assert M.F1().update(truth, scores).compute() == pytest.approx(expected)
    padded = M.F1().update(truth.to_padded_tensor(0), scores.to_padded_tensor(0.0), truth.mask())
    assert padded.compute() == pytest.approx(expected)


OF_CLASSES = (M.Accuracy, M.BalancedAccuracy, M.CohenKappa, M.F1, M.MCC, M.Precision, M.Recall, M.Specificity)
OF_PROBABILITIES = (M.Brier, M.CalibrationError, M.LogLoss, M.PRAUC, M.ROCAUC)
OF_NUMBERS = (M.MAE, M.MSE, M.R2, M.RMSE)


@pytest.mark.parametrize("metric", [*OF_CLASSES, *OF_PROBABILITIES, *OF_NUMBERS])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_every_figure_of_padded_and_of_ragged_sequences_is_that_of_their_steps(metric, n_classes):
    rng = np.random.RandomState(n_classes)
    lengths = [5, 1, 9, 3, 0, 7]
    if metric in OF_NUMBERS:
        truth, found = [rng.randn(n) for n in lengths], [rng.randn(n) for n in lengths]
    else:
        truth = [rng.randint(0, n_classes, n) for n in lengths]
        found = [rng.dirichlet(np.ones(n_classes), n) for n in lengths]
    expected = metric().update(np.concatenate(truth), np.concatenate(found)).compute()
    ragged = [ex.ragged([ex.tensor(row) for row in rows]) for rows in (truth, found)]
    assert metric().update(*ragged).compute() == pytest.approx(expected, abs=1e-12)
    padded = [rows.to_padded_tensor(0) for rows in ragged]
    if metric not in OF_NUMBERS:
        padded[1] = padded[1] + (~ragged[0].mask()).double().unsqueeze(-1) * 5  # what is masked must not matter
    assert metric().update(*padded, ragged[0].mask()).compute() == pytest.approx(expected, abs=1e-12)
    streamed = metric()
    for i in range(0, len(lengths), 2):
        streamed.update(padded[0][i : i + 2], padded[1][i : i + 2], ragged[0].mask()[i : i + 2])
    assert streamed.compute() == pytest.approx(expected, abs=1e-12)


@given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 2**31 - 1))
def test_several_outputs_of_a_sample_are_averaged(n, n_outputs, seed):
    rng = np.random.RandomState(seed)
    truth = rng.randn(n, n_outputs) * 10.0 ** rng.randint(-2, 3, n_outputs)
    truth[:, 0] = 1.0 if seed % 3 == 0 else truth[:, 0]  # without variance
    found = truth + rng.randn(n, n_outputs) * (seed % 2)
    assert fed(M.R2, truth, found, rng) == pytest.approx(sk.r2_score(truth, found), rel=1e-6, abs=1e-6)
    assert fed(M.RMSE, truth, found, rng) == pytest.approx(sk.root_mean_squared_error(truth, found))
    assert fed(M.MSE, truth, found, rng) == pytest.approx(sk.mean_squared_error(truth, found))
    assert fed(M.MAE, truth, found, rng) == pytest.approx(sk.mean_absolute_error(truth, found))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_impossible_things_that_happen_cost_as_much_as_in_scikit_learn(dtype):
    truth, p = [1, 1, 0], np.array([[1, 0], [0.3, 0.7], [1, 0]], dtype)
    expected = sk.log_loss(truth, p, labels=[0, 1])
    assert M.LogLoss().update(truth, p).compute() == pytest.approx(expected, abs=1e-6)
    assert M.LogLoss().update(truth, ex.tensor(p)).compute() == pytest.approx(expected, abs=1e-6)
