"""Learning-rate schedules: every one of PyTorch's `torch.optim.lr_scheduler`, with its names, state and values."""

from __future__ import annotations

from ..core.absent_names import explain_absent
from .lr_base import LRScheduler
from .lr_combined import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from .lr_cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from .lr_decays import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

_LRScheduler = LRScheduler  # the name that older scripts subclass

explain_absent(__name__)
