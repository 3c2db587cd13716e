"""`torch.nn.modules.module`: what libraries import from there besides `Module` and its hooks."""

from __future__ import annotations

from ...nn.state import IncompatibleKeys as _IncompatibleKeys

__all__ = ["_EXTRA_STATE_KEY_SUFFIX", "_IncompatibleKeys"]

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
