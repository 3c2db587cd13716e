"""`torch.nn.modules.module`: what libraries import from there besides `Module` and its hooks."""

from __future__ import annotations

from typing import Any

from ...nn.hooks import EVERYWHERE as _EVERYWHERE
from ...nn.hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from ...nn.state import IncompatibleKeys as _IncompatibleKeys

__all__ = [
    "_EXTRA_STATE_KEY_SUFFIX", "_IncompatibleKeys", "register_module_backward_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
]  # fmt: skip

register_module_backward_hook = register_module_full_backward_hook  # which it has become
_global_forward_hooks, _global_forward_pre_hooks = _EVERYWHERE.forward, _EVERYWHERE.forward_pre
_global_backward_hooks, _global_backward_pre_hooks = _EVERYWHERE.backward, _EVERYWHERE.backward_pre
# Hooks around the assignment of attributes: there are none, and libraries that look find none.
_global_parameter_registration_hooks: dict[int, Any] = {}
_global_buffer_registration_hooks: dict[int, Any] = {}
_global_module_registration_hooks: dict[int, Any] = {}

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
