"""There is no accelerator, and whoever asks is told so."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import accelerator


def test_questions_get_their_answer():
    assert not accelerator.is_available()
    assert accelerator.device_count() == 0
    assert accelerator.current_accelerator() is None
    accelerator.synchronize()


def test_what_only_one_could_do_is_refused_when_it_is_used():
    with pytest.raises(ex.errors.UnsupportedError, match="guard the line"):
        accelerator.current_device_index()


def test_a_device_that_is_not_there_has_no_memory():
    accelerator.reset_peak_memory_stats()
    accelerator.empty_host_cache()
    assert accelerator.get_memory_info() == (0, 0)
    assert accelerator.memory_allocated() == 0
