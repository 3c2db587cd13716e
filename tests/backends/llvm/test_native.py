"""The native backend as others see it: code for an op, views, and its own test of itself."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm import native as module
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float16, float32

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

MATRIX = TensorType((2, 3), float32)


def code_of(name, types, attrs):
    op = REGISTRY[name]
    return native().code(op, types, attrs, op.signature(types, attrs))


def refuse(*arrays):
    raise AssertionError("the kernel declined")


def test_an_elementwise_op_and_a_routine_become_callables():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    code = code_of("exp", (MATRIX,), {})
    np.testing.assert_allclose(native().load(code, None, refuse)(x), np.exp(x), rtol=1e-6)
    code = code_of("softmax", (MATRIX,), {"dim": 1})
    np.testing.assert_allclose(native().load(code, code.words, refuse)(x).sum(1), [1.0, 1.0], rtol=1e-6)


def test_there_is_no_code_for_other_dtypes_and_ops():
    half = TensorType((2, 3), float16)
    assert code_of("exp", (half,), {}) is None
    assert code_of("softmax", (half,), {"dim": 1}) is None


def test_a_reduction_of_what_was_expanded_is_done_in_parts():
    code = code_of("sum", (TensorType((1 << 12, 1 << 10), float32),), {"dim": (0, 1), "keepdim": False})
    assert code.spread is not None
    run = native().load(code, code.words, refuse)
    assert float(run(np.broadcast_to(np.float32(0.5), (1 << 12, 1 << 10)))) == 2.0**21


def test_a_view_is_a_call_and_one_that_numpy_makes_is_the_fallback():
    op = REGISTRY["permute"]
    words = native().view_words(op, (MATRIX,), {"dims": (1, 0)}, TensorType((3, 2), float32))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    view = native().view_call(op, words, refuse)(x)
    assert np.shares_memory(view, x)
    np.testing.assert_array_equal(view, x.T)
    assert native().view_call(op, None, refuse) is refuse


def test_a_gradient_with_too_many_operands_is_left_to_python():
    assert native().gradient(refuse, 1, (), [(0, 0, True)]) is not None
    assert native().gradient(refuse, 1000, (), [(0, 0, True)]) is None


def test_rows_are_loaded_once_and_stats_count():
    assert native().rows() is native().rows()
    stats = native().stats()
    assert stats["kernels_loaded"] >= stats["kernels_compiled"] >= 0
    assert stats["cpu"]
    assert set(stats["memory"]) >= {"bytes_in_use"}


def test_a_kernel_that_computes_something_else_fails_the_self_test(monkeypatch):
    wrong = REGISTRY["add"]
    monkeypatch.setitem(module.REGISTRY, "mul", wrong)
    with pytest.raises(RuntimeError, match="computed"):
        native()._test_itself()
    monkeypatch.setitem(module.REGISTRY, "mul", REGISTRY["matmul"])
    with pytest.raises(RuntimeError, match="cannot be written"):
        native()._test_itself()
