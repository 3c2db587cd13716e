"""Metrics of classification, regression, images, text and retrieval."""

import copy

import torch
import torchmetrics as tm
from fixed import show, waves
from torchmetrics import classification, image, regression, retrieval, text

scores = torch.softmax(waves(40, 4, step=1.7) * 3, -1)
classes = (torch.arange(40) * 7) % 4
first = (classes == 0).long()
several = tm.MetricCollection(
    [
        tm.Accuracy(task="multiclass", num_classes=4),
        tm.F1Score(task="multiclass", num_classes=4, average="macro"),
        tm.AUROC(task="multiclass", num_classes=4),
    ]
)
for start in range(0, 40, 10):
    several.update(scores[start : start + 10], classes[start : start + 10])
copy.deepcopy(several)
x, y = waves(30), waves(30) + 0.1 * waves(30, step=3.0)
picture = waves(1, 3, 32, 32) * 0.5 + 0.5
other = (picture + 0.05 * waves(1, 3, 32, 32, step=2.0)).clamp(0, 1)
show(
    several=several.compute(),
    confusion=tm.ConfusionMatrix(task="multiclass", num_classes=4)(scores, classes),
    curve=classification.BinaryPrecisionRecallCurve(thresholds=5)(scores[:, 0], first),
    calibration=classification.BinaryCalibrationError()(scores[:, 0], first),
    jaccard=classification.MulticlassJaccardIndex(4)(scores, classes),
    regression=[m()(x, y) for m in (tm.MeanSquaredError, tm.R2Score, regression.PearsonCorrCoef)],
    ranks=[m()(x, y) for m in (regression.SpearmanCorrCoef, regression.KendallRankCorrCoef)],
    image=[
        image.PeakSignalNoiseRatio(data_range=1.0)(picture, other),
        image.StructuralSimilarityIndexMeasure(data_range=1.0)(picture, other),
    ],
    words=text.WordErrorRate()(["a b c d"], ["a x c d e"]),
    retrieval=retrieval.RetrievalMAP()(scores[:, 0], first.bool(), indexes=torch.arange(40) // 10),
)
