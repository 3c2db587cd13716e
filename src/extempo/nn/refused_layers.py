"""Layers of PyTorch that Extempo refuses by name, each with what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

REFUSED_LAYERS: Mapping[str, str] = {
    "DataParallel": "there is one device; call the module itself",
    "CrossMapLRN2d": "use nn.LocalResponseNorm, which computes the same",
    "NLLLoss2d": "use nn.NLLLoss, which takes (batch, classes, height, width)",
    "Container": "use nn.Module",
    "LinearCrossEntropyOptions": "use nn.functional.cross_entropy on the scores of a linear layer",
}
