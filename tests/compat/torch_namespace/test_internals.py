"""The few internals that libraries ask for."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import internals


def test_an_error_of_elsewhere_is_raised_again():
    error = KeyError("x")
    with pytest.raises(KeyError, match="x"):
        internals.ExceptionWrapper((KeyError, error, None)).reraise()


def test_nothing_is_logged_and_nothing_is_traced():
    assert internals._log_api_usage_once("event") is None
    assert internals._get_tracing_state() is None


def test_what_a_conversion_asks_for_is_read():
    assert internals._parse_to("cpu", ex.float64) == (ex.device("cpu"), ex.float64, False, None)
    assert internals._parse_to(ex.float16, non_blocking=True)[:3] == (None, ex.float16, True)


def test_a_class_without_overrides_runs_the_function():
    assert internals._disabled_torch_function_impl(max, (), (1, 2)) == 2
    assert internals._get_default_device() == "cpu"


def test_kinds_of_kernels_can_be_named():
    keys = internals.DispatchKeySet(internals.DispatchKey.AutocastCPU) | internals.DispatchKeySet("CPU")
    assert keys.has("CPU")
    assert keys.has(internals.DispatchKey.AutocastCPU)
    assert not hasattr(internals.DispatchKey, "__wrapped__")


def test_modules_of_devices_are_found_by_name():
    assert internals._get_device_module("cuda") is ex.cuda
    assert internals._get_available_device_type() is None
    assert internals._get_privateuse1_backend_name() == "privateuseone"
    assert not internals._are_functorch_transforms_active()
