"""Mixed precision on a GPU is not there."""

from __future__ import annotations

from extempo.compat.torch_namespace.amp_common import amp_definitely_not_available


def test_there_is_no_gpu():
    assert amp_definitely_not_available()
