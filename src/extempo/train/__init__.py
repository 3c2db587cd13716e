"""The training loop: `Trainer`, its history and callbacks."""

from __future__ import annotations

from ..core.absent_names import explain_absent
from ..core.public_names import publish
from .callbacks import Callback, EarlyStopping, KeepBest, TensorBoard
from .history import History, observe
from .stepping import NonFiniteLossError
from .trainer import Trainer
from .trials import LRCurve

__all__ = [
    "Callback",
    "EarlyStopping",
    "History",
    "KeepBest",
    "LRCurve",
    "NonFiniteLossError",
    "TensorBoard",
    "Trainer",
    "observe",
]

publish(__name__, __all__, globals())

explain_absent(__name__)
