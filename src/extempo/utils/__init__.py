"""Tools around models: checkpoints, data and hook handles."""

from __future__ import annotations

from ..core.absent_names import explain_absent
from . import checkpoint, data, dlpack, hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks"]

explain_absent(__name__)
