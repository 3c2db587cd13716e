"""Process-wide settings by PyTorch's names."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import ArgumentError, DtypeError


def test_the_default_tensor_type_sets_the_default_dtype():
    ex.set_default_tensor_type(ex.DoubleTensor)
    try:
        assert ex.get_default_dtype() is ex.float64
        ex.set_default_tensor_type("torch.FloatTensor")
        assert ex.zeros(1).dtype is ex.float32
        with pytest.raises(DtypeError, match="floating"):
            ex.set_default_tensor_type(ex.LongTensor)
    finally:
        ex.set_default_dtype(ex.float32)


def test_threads_and_determinism_are_settings_that_are_kept():
    before = ex.get_num_threads()
    assert before >= 1
    ex.set_num_threads(3)
    assert ex.get_num_threads() == 3
    ex.set_num_threads(before)
    assert ex.get_num_interop_threads() >= 1
    for bad, error in [(0, ArgumentError), (1.5, DtypeError), (True, DtypeError)]:
        with pytest.raises(error, match="set_num_threads"):
            ex.set_num_threads(bad)
    ex.use_deterministic_algorithms(True, warn_only=True)
    assert ex.are_deterministic_algorithms_enabled()
    assert ex.is_deterministic_algorithms_warn_only_enabled()
    ex.use_deterministic_algorithms(False)
    assert not ex.are_deterministic_algorithms_enabled()
    ex.set_float32_matmul_precision("high")
    assert ex.get_float32_matmul_precision() == "high"
    ex.set_float32_matmul_precision("highest")
    with pytest.raises(ArgumentError, match="highest"):
        ex.set_float32_matmul_precision("low")
    assert ex.set_flush_denormal(True) is False


def test_typename_is_storage_and_version():
    assert ex.typename(ex.zeros(2)) == "extempo.FloatTensor"
    assert ex.typename(3) == "int"
    assert ex.typename(ex.Generator()).endswith("Generator")
    assert not ex.is_storage(3)
    assert ex.version.__version__ == ex.__version__
    assert ex.version.cuda is None
