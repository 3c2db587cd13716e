"""Nobody overrides torch functions."""

from __future__ import annotations

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
