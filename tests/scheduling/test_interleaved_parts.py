"""Units that run in turn, as one instruction: strides of operands and kernels."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32
from extempo.scheduling.interleaved_parts import _joined, with_product, with_sums
from extempo.scheduling.lowering import lowered_op

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def test_dimensions_are_taken_together_where_all_operands_allow_it():
    assert _joined((2, 3, 4), ((12, 4, 1), (0, 0, 1)), (1, 6, 4)) == [(0, 4, 1), (0, 0, 1)]
    assert _joined((2, 3, 4), ((12, 4, 1), (0, 4, 1)), (1, 6, 4)) is None
    assert _joined((2, 1, 3), ((3, 3, 1),), (2, 3, 1)) == [(3, 1, 0)]
    assert _joined((2, 3), ((3, 1),), (3, 2, 1)) is None


def test_a_dimension_of_size_one_belongs_to_no_group():
    assert _joined((1, 4, 1), ((0, 4, 0),), (1, 4, 1)) == [(0, 4, 0)]
    assert _joined((), ((),), (1, 1, 1)) == [(0, 0, 0)]


def nodes_of(name, t):
    expression = lowered_op(REGISTRY[name], (t,), {}).expression
    return ((expression, (0,)),)


def summed(t, dim):
    return lowered_op(REGISTRY["sum"], (t,), {"dim": dim, "keepdim": False}).bound.parts


def test_a_sum_and_its_cluster_are_one_instruction_where_the_cluster_can_follow_the_sum():
    t = TensorType((90, 120), float32)
    lies, turned = (480, 4), (4, 360)
    for dim in ((0,), (1,), (0, 1)):
        made = with_sums(nodes_of("exp", t), (0,), t.shape, (lies, lies), (summed(t, dim),), (0,), (False,))
        assert made is not None
        assert made.sums == [(1, False)]
        assert made.local == [False, False]
    # Results that do not lie side by side along what is summed have no kernel.
    assert with_sums(nodes_of("exp", t), (0,), t.shape, (lies, turned), (summed(t, (1,)),), (0,), (False,)) is None


def test_a_product_is_followed_by_a_cluster_of_its_own_rows_and_columns():
    a, b, t = (TensorType(shape, float32) for shape in ((300, 8), (8, 400), (300, 400)))
    bound = lowered_op(REGISTRY["matmul"], (a, b), {}).bound
    own = (nodes_of("tanh", t), (0,), t.shape)
    made = with_product(*own, ((1600, 4), (1600, 4)), bound.parts, bound.address, bound.meta, 3)
    assert (made.rows, made.columns) == ([1600, 1600], [4, 4])
    assert with_product(*own, ((1600, 4), (4, 1200)), bound.parts, bound.address, bound.meta, 3) is None
