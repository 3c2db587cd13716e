"""Tools around models: checkpoints, data and hook handles."""

from __future__ import annotations

from . import checkpoint, data, hooks

__all__ = ["checkpoint", "data", "hooks"]
