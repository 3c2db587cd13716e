"""What scripts ask an accelerator that is not there."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat import accelerators
from extempo.compat.accelerators import refusals
from extempo.core.absent_names import RefusedName


@pytest.mark.parametrize("name", ["cuda", "mps", "xpu"])
def test_accelerators_are_not_there(name):
    module = getattr(ex, name)
    assert module.is_available() is False
    assert module.device_count() == 0
    module.manual_seed(0)
    module.manual_seed_all(0)
    module.empty_cache()
    assert module.memory_allocated() == 0
    assert (module.memory_stats(), module.get_rng_state_all(), module.get_arch_list()) == ({}, [], [])
    assert module.is_tf32_supported() is False
    with pytest.raises(RefusedName, match=rf"extempo\.{name}\.synchronize: .* `if ex\.{name}\.is_available\(\):`"):
        module.synchronize()


def test_names_that_are_refused_can_be_imported_and_asked_about():
    from extempo.cuda import CUDAGraph, Stream

    assert hasattr(ex.cuda, "CUDAGraph")
    assert not isinstance(3, Stream)
    with pytest.raises(RefusedName, match="Extempo runs on the CPU"):
        CUDAGraph()


def test_errors_of_devices_can_be_caught():
    for error in (ex.cuda.OutOfMemoryError, ex.cuda.CudaError, ex.cuda.AcceleratorError):
        with pytest.raises(RuntimeError):
            raise error("there is none")


def test_misspelt_names_of_devices_get_a_suggestion():
    with pytest.raises(AttributeError, match="did you mean 'is_available'"):
        ex.cuda.is_avaliable()


def test_the_table_refuses_nothing_that_answers():
    assert not refusals("tpu").keys() & set(accelerators.__all__)
