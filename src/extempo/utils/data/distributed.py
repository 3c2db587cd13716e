"""The sampler of one process among several, under the module name where PyTorch has it."""

from __future__ import annotations

from ...data import DistributedSampler

__all__ = ["DistributedSampler"]
