"""What is not there says so when it is asked."""

from __future__ import annotations

from extempo.compat.torch_namespace import unavailable


def test_there_is_no_accelerator():
    assert not unavailable.is_available()
    assert unavailable.device_count() == 0
    assert unavailable.current_accelerator() is None
    assert unavailable.synchronize() is unavailable.empty_cache() is None
