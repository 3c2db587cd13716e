"""The DataLoader, under the module name where PyTorch has them."""

from __future__ import annotations

from ...data import DataLoader, default_collate, default_convert, get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
