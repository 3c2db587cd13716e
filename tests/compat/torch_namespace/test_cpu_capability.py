"""No kernel of PyTorch's is promised."""

from __future__ import annotations

from extempo.compat.torch_namespace.cpu_capability import get_cpu_capability


def test_no_instructions_are_named():
    assert get_cpu_capability() == "DEFAULT"
