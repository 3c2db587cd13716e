"""What libraries import from torch.nn.modules.module."""

from __future__ import annotations

import extempo as ex
from extempo.compat.torch_namespace.module_internals import _IncompatibleKeys


def test_loading_returns_the_keys_that_libraries_ask_for():
    layer = ex.nn.Linear(2, 1)
    assert isinstance(layer.load_state_dict(layer.state_dict()), _IncompatibleKeys)
