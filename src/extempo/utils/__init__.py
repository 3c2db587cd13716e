"""Tools around models: checkpoints and hook handles."""

from __future__ import annotations

from . import checkpoint, hooks

__all__ = ["checkpoint", "hooks"]
