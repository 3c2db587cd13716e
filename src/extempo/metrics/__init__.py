"""Figures of merit: fed batch by batch, mergeable, equal to scikit-learn's; and `report`, which looks past accuracy.

>>> accuracy = ex.metrics.Accuracy()
>>> for y_true, y_pred in [([0, 1], [0, 1]), ([1, 1], [0, 1])]:
...     _ = accuracy.update(y_true, y_pred)
>>> accuracy.compute()
0.75
"""

from __future__ import annotations

from ..core.absent_names import explain_absent
from ..core.public_names import publish
from .base import Metric
from .confusion import ConfusionMatrix
from .figures import (
    F1,
    MCC,
    Accuracy,
    BalancedAccuracy,
    CohenKappa,
    FBeta,
    Precision,
    Recall,
    Specificity,
)
from .intervals import interval
from .probabilities import Brier, CalibrationError, LogLoss
from .ranking import PRAUC, ROCAUC, precision_recall_curve, roc_curve, threshold_for_recall
from .regression import MAE, MSE, R2, RMSE
from .reporting import Report, report

__all__ = [
    "F1",
    "MAE",
    "MCC",
    "MSE",
    "PRAUC",
    "R2",
    "RMSE",
    "ROCAUC",
    "Accuracy",
    "BalancedAccuracy",
    "Brier",
    "CalibrationError",
    "CohenKappa",
    "ConfusionMatrix",
    "FBeta",
    "LogLoss",
    "Metric",
    "Precision",
    "Recall",
    "Report",
    "Specificity",
    "interval",
    "precision_recall_curve",
    "report",
    "roc_curve",
    "threshold_for_recall",
]

publish(__name__, __all__, globals())

explain_absent(__name__)
