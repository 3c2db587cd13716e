"""How tensors are shared between processes: one way, which may be asked and set."""

from __future__ import annotations

from extempo.compat.torch_namespace import sharing


def test_the_one_strategy_stays():
    sharing.set_sharing_strategy("file_descriptor")
    assert sharing.get_sharing_strategy() in sharing.get_all_sharing_strategies()
