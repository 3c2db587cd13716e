"""Shapes and strides as kernels get them."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.plans.geometry import elementwise_call, row_kinds
from extempo.backends.selection import native

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

KERNEL = 4096


def test_arrays_in_one_run_are_one_row_and_the_kernel_itself_is_called():
    strides = ((60, 20, 4), (0, 0, 0), (60, 20, 4))
    assert row_kinds((2, 3, 5), (4, 8, 4), strides, 2) == "10"
    address, meta = elementwise_call(KERNEL, (2, 3, 5), (4, 8, 4), strides, 2)
    assert (address, meta) == (KERNEL, (1, 30, 0, 0, 0, 4, 0, 4))


def test_dimensions_that_do_not_join_are_rows_and_columns():
    strides = ((20, 4), (0, 4), (4, 0), (4, 12), (20, 4))
    assert row_kinds((3, 5), (4,) * 5, strides, 4) == "110s"
    address, meta = elementwise_call(KERNEL, (3, 5), (4,) * 5, strides, 4)
    assert (address, meta) == (KERNEL, (3, 5, 20, 0, 4, 4, 20, 4, 4, 0, 12, 4))


def test_more_than_two_dimensions_or_many_elements_are_looped_over_natively():
    address, meta = elementwise_call(KERNEL, (2, 3, 5), (4, 4), ((4, 8, 24), (60, 20, 4)), 1)
    assert address != KERNEL
    assert meta == (KERNEL, 2, 1, 3, 5, 8, 20, 24, 4, 2, 4, 60)
    same, meta = elementwise_call(KERNEL, (1 << 17,), (4, 4), ((4,), (4,)), 1)
    assert same == address
    assert meta == (KERNEL, 2, 0, 1, 1 << 17, 0, 0, 4, 4)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4)])
def test_no_elements_are_no_rows(shape):
    strides = ((0,) * len(shape), (4,) * len(shape))
    assert elementwise_call(KERNEL, shape, (4, 4), strides, 1) == (KERNEL, (0,) * 6)


def test_one_element_takes_the_kernel_for_elements_side_by_side():
    assert row_kinds((), (4, 4, 4), ((), (), ()), 2) == "11"
    assert row_kinds((1, 1), (4, 4), ((0, 0), (4, 4)), 1) == "1"


def test_an_output_may_be_columns_of_a_wider_matrix_even_one():
    assert row_kinds((3, 5), (4, 4), ((20, 4), (400, 4)), 1) == "1"
    address, meta = elementwise_call(KERNEL, (3, 1), (4, 4), ((4, 4), (400, 4)), 1)
    assert (address, meta) == (KERNEL, (3, 1, 4, 400, 0, 0))


def test_an_output_whose_elements_are_apart_is_refused():
    with pytest.raises(ValueError, match="side by side"):
        row_kinds((3, 5), (4, 4), ((20, 4), (4, 12)), 1)
    with pytest.raises(ValueError, match="side by side"):
        row_kinds((3,), (4, 4), ((4,), (8,)), 1)


def test_too_many_operands_are_refused():
    with pytest.raises(ValueError, match="49 operands"):
        row_kinds((3,), (4,) * 49, ((4,),) * 49, 40)
