"""Launches of elementwise ops: what native code runs itself, what goes the slow way, and that both give the same."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import extempo as ex
from extempo.backends.llvm.calls.launch import CASES
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.tensor import Tensor
from extempo.core.types import TensorType, float32
from extempo.dispatch.fast_path import FastOp, launcher

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

X = ex.tensor([1.0, 2.0, 3.0])


@pytest.fixture
def launch():
    """A launch of mul that knows no kernel yet, and what went the slow way."""
    slow = []

    def note(*args):
        slow.append(args)
        return "slow"

    return launcher().launch("mul", REGISTRY["mul"], 2, note), slow


def with_kernel(made, types, case=()):
    from extempo.backends.llvm.elementwise.kernels import of_op

    made.set_kernel(0, CASES.index(case), of_op(REGISTRY["mul"], types, {}))


def test_without_a_kernel_everything_goes_the_slow_way(launch):
    made, slow = launch
    assert made.call(X, X) == "slow"
    assert made.call(X, 2.0) == "slow"
    assert len(slow) == 2
    assert not made.has_kernel(0, 0)


def test_a_kernel_serves_its_dtype_and_case_of_numbers_only(launch):
    made, slow = launch
    t = TensorType((3,), float32)
    with_kernel(made, (t, t))
    assert made.has_kernel(0, 0)
    assert made.call(X, X).tolist() == [1.0, 4.0, 9.0]
    assert made.call(X, 2.0) == made.call(X.double(), X.double()) == made.call(X, X.double()) == "slow"
    with_kernel(made, (t, float), (float, 1))
    assert made.call(X, 2.0).tolist() == [2.0, 4.0, 6.0]
    assert made.call(2.0, X) == made.call(X, 2) == made.call(X, True) == "slow"
    assert len(slow) == 6


def test_a_wrong_number_of_arguments_and_keywords_go_the_slow_way(launch):
    made, slow = launch
    with_kernel(made, (TensorType((3,), float32),) * 2)
    assert made.call(X) == "slow"
    assert made.call(X, X, X) == "slow"
    with pytest.raises(TypeError):
        made.call(X, other=X)
    assert len(slow) == 2


def test_shapes_that_broadcast_wait_for_the_type_of_their_result(launch):
    made, slow = launch
    row, column = ex.ones(3), ex.ones(2, 1) * 2.0
    with_kernel(made, (row._type, row._type))
    assert made.call(row, column) == "slow"
    made.types[row._type, column._type] = TensorType((2, 3), float32)
    assert made.call(row, column).tolist() == [[2.0] * 3] * 2
    assert len(slow) == 1


def test_a_tracked_result_waits_for_its_gradient_and_then_has_a_node(launch):
    made, _ = launch
    x = ex.ones(3, requires_grad=True)
    with_kernel(made, (X._type, X._type))
    assert made.call(x, X) == "slow"
    made.set_gradient(0, 0, 1, None, (2,))
    assert made.has_gradient(0, 0, 1)
    y = made.call(x, X)
    assert y.requires_grad
    (saved,) = y.grad_fn.saved
    assert saved[:2] == (2, X._array)
    with ex.no_grad():
        assert not made.call(x, X).requires_grad


@pytest.mark.parametrize("name", ["exp", "neg", "add", "mul", "maximum"])
@pytest.mark.parametrize("dtype", [ex.float32, ex.float64])
def test_the_first_call_and_later_ones_give_the_same_tensors(name, dtype):
    arity = 1 if name in ("exp", "neg") else 2
    short = FastOp(REGISTRY[name], arity)
    x = ex.tensor([0.5, -2.0, np.inf], dtype=dtype, requires_grad=True)
    others = [()] if arity == 1 else [(x,), (2.0,), (3,), (ex.ones(2, 1, dtype=dtype),)]
    for other in others:
        results = [short.run(x, *other) for _ in range(4)]
        assert {(tuple(r.shape), r.dtype, r.requires_grad, r.grad_fn.name()) for r in results} == {
            (tuple(results[0].shape), dtype, True, results[0].grad_fn.name())
        }
        assert len({r.detach().numpy().tobytes() for r in results}) == 1


def test_a_subclass_is_none_of_its_business():
    class Own(Tensor):
        pass

    own = Own([1.0, 2.0])
    short = FastOp(REGISTRY["add"], 2)
    for _ in range(3):
        assert short.run(own, 1.0).tolist() == [2.0, 3.0]
