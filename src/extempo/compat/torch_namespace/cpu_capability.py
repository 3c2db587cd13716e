"""`torch.backends.cpu`: libraries ask it whether PyTorch has kernels for some instructions; it has none here."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """What PyTorch calls a processor without special instructions."""
    return "DEFAULT"
