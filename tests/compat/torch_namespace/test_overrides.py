"""Nobody overrides torch functions."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import overrides


def test_there_is_never_an_override_and_functions_run_as_they_are():
    assert not overrides.has_torch_function((ex.ones(2),))
    assert not overrides.has_torch_function_unary(ex.ones(2))
    assert overrides.handle_torch_function(max, (), 1, 2) == 2
    assert overrides.is_tensor_like(ex.ones(2))
    assert not overrides.is_tensor_like([1.0])


def test_a_mode_sees_no_call():
    class Doubling(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **kwargs or {}) * 2

    with Doubling():
        assert ex.ones(1).exp().log().item() == 1.0
    assert overrides.get_default_nowrap_functions() == set()


def test_no_function_asks_a_class():
    with overrides.DisableTorchFunction(), overrides.enable_reentrant_dispatch():
        assert overrides.wrap_torch_function(lambda *args: args)(len) is len
    assert overrides.get_overridable_functions() == {}
    assert overrides.get_ignored_functions() == set()
    assert overrides.is_tensor_method_or_property(ex.Tensor.sum)
    assert not overrides.is_tensor_method_or_property(len)
    assert overrides.resolve_name(len) == "torch.len"


def test_a_stand_in_for_tensors_is_told_to_use_its_own_methods():
    class StandIn:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError

    for use in (lambda: ex.stack([StandIn()]), lambda: ex.add(ex.ones(1), StandIn())):
        with pytest.raises(ex.errors.DtypeError, match="asks no class for its __torch_function__: call StandIn's own"):
            use()
