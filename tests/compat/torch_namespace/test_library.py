"""Ops of one's own are functions with a gradient."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import library, op_names


def made():
    @library.custom_op("tests::cube", mutates_args=())
    def cube(x: ex.Tensor) -> ex.Tensor:
        """x ** 3 by NumPy."""
        return ex.from_numpy(x.detach().numpy() ** 3)

    return cube


def test_an_op_has_the_gradient_that_is_registered():
    cube = made()
    library.register_autograd(
        "tests::cube",
        lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = ex.tensor([1.0, 2.0], requires_grad=True)
    cube(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]
    assert cube.__doc__ == "x ** 3 by NumPy."


def test_an_op_is_found_by_its_name():
    cube = made()
    assert op_names.tests.cube is cube
    assert cube(ex.tensor([2.0])).tolist() == [8.0]
    assert "tests::cube" in repr(cube)


def test_a_kernel_for_the_cpu_is_taken_and_others_are_not():
    cube = made()
    library.register_kernel("tests::cube", "cuda", lambda x: x)
    assert cube(ex.tensor([2.0])).tolist() == [8.0]

    @cube.register_kernel("cpu")
    def _(x):
        return x * x * x + 1

    assert cube(ex.tensor([2.0])).tolist() == [9.0]


def test_what_states_shapes_is_handed_back():
    assert library.register_fake("tests::cube", len) is len
    assert library.register_fake("tests::cube")(len) is made().register_fake(len) is len
    assert library.custom_op("tests::length", len, mutates_args=())("abc") == 3


def test_an_op_may_be_defined_before_there_is_a_function_for_it():
    library.define("tests::later", "(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="tests::later: this op was defined"):
        op_names.tests.later(ex.ones(2))

    @library.impl("tests::later", "cuda")
    def _(x):
        raise AssertionError

    @library.impl("tests::later", ("cpu", "cuda"))
    def _(x):
        return x + 1

    assert op_names.tests.later.default(ex.ones(2)).tolist() == [2, 2]


def test_a_library_defines_ops_in_its_namespace():
    mine = library.Library("tests_mine", "DEF")
    assert mine.define("twice(Tensor x) -> Tensor") == "twice"
    mine.impl("twice", lambda x: None, "Meta")
    mine.impl("twice", lambda x: 2 * x, "CompositeExplicitAutograd")
    assert op_names.tests_mine.twice(3) == 6

    @library.impl(mine, "twice", "CPU")
    def _(x):
        return 2 * x + 1

    assert op_names.tests_mine.twice(3) == 7


def test_an_op_of_pytorchs_own_cannot_be_replaced():
    with pytest.raises(ex.errors.UnsupportedError, match="aten::add is none of the ops"):
        library.Library("aten", "IMPL").impl("add", lambda x, y: x, "CPU")


def test_ops_around_kernels_for_a_gpu_can_be_declared():
    assert library.triton_op("tests::kernel", mutates_args=())(len)("ab") == 2
    assert library.wrap_triton(len) is len
