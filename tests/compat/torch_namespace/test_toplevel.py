"""Names of torch that no Extempo program needs."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import toplevel


def test_checks_raise_their_kind_of_error_with_the_text_that_is_asked_for():
    toplevel._check(True, lambda: "unused")
    with pytest.raises(RuntimeError, match="too long"):
        toplevel._check(False, lambda: "too long")
    with pytest.raises(IndexError):
        toplevel._check_index(False)
    with pytest.raises(ValueError, match="no"):
        toplevel._check_value(False, lambda: "no")
    with pytest.raises(TypeError):
        toplevel._check_type(False)
    with pytest.raises(NotImplementedError):
        toplevel._check_not_implemented(False)
    with pytest.raises(RuntimeError):
        toplevel._check_is_size(-1)
    with pytest.raises(AssertionError, match="shape"):
        toplevel._assert(False, "shape")
    with pytest.raises(RuntimeError):
        toplevel._assert_async(ex.tensor(False))


def test_symbolic_sizes_are_numbers():
    assert toplevel.sym_int(2.7) == 2
    assert toplevel.sym_max(2, 3) == 3
    assert toplevel.sym_sum([1, 2, 3]) == 6
    assert toplevel.sym_not(0)
    assert toplevel.sym_ite(True, 1, 2) == 1


def test_other_devices_have_nothing_to_wait_for():
    with toplevel.Stream() as stream:
        stream.synchronize()
    assert toplevel.Event().query()
    assert not toplevel.is_autocast_cpu_enabled()
    assert toplevel.get_autocast_cpu_dtype() == ex.bfloat16


def test_functions_on_lists_are_found_by_their_names():
    assert [t.item() for t in toplevel._foreach_neg([ex.tensor(1.0)])] == [-1.0]
    assert toplevel._foreach_norm([ex.tensor([3.0, 4.0])])[0].item() == 5.0
    with pytest.raises(AttributeError, match="_unknown"):
        toplevel._unknown  # noqa: B018 - the access is the test


def test_methods_that_write_in_place_are_functions_too():
    x = ex.tensor([1.0, 4.0])
    assert toplevel.sqrt_(x) is x
    assert toplevel.clamp_(x, max=1.5).tolist() == [1.0, 1.5]
    missing = [name for name in toplevel._IN_PLACE if not hasattr(toplevel, name)]
    assert missing == []
    assert not hasattr(toplevel, "add_")


def test_wishes_are_kept_that_change_no_result():
    toplevel.set_warn_always(True)
    assert toplevel.is_warn_always_enabled()
    toplevel.set_warn_always(False)
    toplevel.set_deterministic_debug_mode("error")
    assert toplevel.get_deterministic_debug_mode() == 2
    toplevel.set_deterministic_debug_mode(0)
    toplevel.set_autocast_cache_enabled(True)
    assert toplevel.is_autocast_cache_enabled()


def test_anomalies_are_looked_for_where_it_is_asked():
    toplevel.set_anomaly_enabled(True)
    assert toplevel.is_anomaly_enabled()
    toplevel.set_anomaly_enabled(False)
    assert not toplevel.is_anomaly_check_nan_enabled()


def test_questions_about_tensors_and_devices():
    x = ex.ones(2)
    assert (toplevel.get_device(x), toplevel.is_distributed(x)) == (-1, False)
    assert toplevel.get_device_module() is ex.cpu
    assert ex.from_dlpack(toplevel.to_dlpack(x)).tolist() == [1.0, 1.0]
    assert toplevel.compiled_with_cxx11_abi()
    assert not toplevel.is_vulkan_available()
    toplevel.sym_constrain_range(3, min=1, max=4)
    with pytest.raises(ValueError, match="cond"):
        toplevel.sym_constrain_range(5, max=4)
