"""View ops of a program are checked before they run, so that none looks outside of its tensor."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType
from extempo.errors import ShapeError
from extempo.exporting.view_checks import check_view

X = TensorType((3, 4), ex.float32)
GOOD = [
    ("reshape", (), {"shape": (2, 6)}),
    ("permute", (), {"dims": (1, 0)}),
    ("expand", (), {"shape": (2, 3, 4)}),
    ("slice", (2, 1), {"spec": ("i", (3, 1))}),
    ("slice", (3,), {"spec": (None, (0, 1))}),
    ("diagonal", (), {"offset": 1, "dim1": 0, "dim2": 1}),
    ("unfold", (), {"dimension": 1, "size": 2, "step": 2}),
    ("as_strided", (1,), {"size": (2, 2), "stride": (4, 1), "source_stride": (4, 1)}),
]
BAD = [
    ("reshape", (), {"shape": (3, 5)}),
    ("reshape", (), {"shape": (-3, -4)}),
    ("permute", (), {"dims": (0, 0)}),
    ("permute", (), {"dims": (0, 7)}),
    ("expand", (), {"shape": (3, 5)}),
    ("expand", (), {"shape": (4,)}),
    ("slice", (3,), {"spec": ("i",)}),
    ("slice", (-1,), {"spec": ("i",)}),
    ("slice", (2,), {"spec": ((2, 1),)}),
    ("slice", (), {"spec": ("i",)}),
    ("slice", (0, 0, 0), {"spec": ("i", "i", "i")}),
    ("slice", (0,), {"spec": ((2, 0),)}),
    ("diagonal", (), {"offset": 1, "dim1": 0, "dim2": 2}),
    ("unfold", (), {"dimension": 1, "size": 5, "step": 1}),
    ("as_strided", (9,), {"size": (2, 2), "stride": (4, 1), "source_stride": (4, 1)}),
    ("as_strided", (0,), {"size": (2,), "stride": (-1,), "source_stride": (4, 1)}),
]


@pytest.mark.parametrize(("name", "numbers", "attrs"), GOOD)
def test_views_inside_their_tensor_pass(name, numbers, attrs):
    check_view(REGISTRY[name], X, numbers, attrs)


@pytest.mark.parametrize(("name", "numbers", "attrs"), BAD)
def test_views_outside_of_it_are_refused(name, numbers, attrs):
    with pytest.raises(ShapeError, match="no such view of a tensor of shape"):
        check_view(REGISTRY[name], X, numbers, attrs)


def test_writes_through_views_are_checked_step_by_step():
    op, value = REGISTRY["write_through"], ex.zeros(4)
    check_view(op, X, (value, 1), {"steps": (("slice", 1, (("spec", ("i",)),)),)})
    for numbers, steps in [
        ((value, 9), (("slice", 1, (("spec", ("i",)),)),)),
        ((ex.zeros(3), 1), (("slice", 1, (("spec", ("i",)),)),)),
        ((value,), (("exp", 0, ()),)),
        ((value,), (("nothing", 0, ()),)),
    ]:
        with pytest.raises(ShapeError, match="no such view"):
            check_view(op, X, numbers, {"steps": steps})


def test_every_view_op_has_a_check():
    free = {"alias", "detach"}
    from extempo.exporting.view_checks import CHECKED

    assert {name for name, op in REGISTRY.items() if op.aliases_input} - free <= CHECKED
