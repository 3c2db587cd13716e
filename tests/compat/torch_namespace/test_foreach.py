"""One function on every tensor of a list."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import foreach
from extempo.compat.torch_namespace.foreach import foreach_function, foreach_norm

CALLS = [
    ("add", (2.0,), {}),
    ("add", ("others",), {"alpha": 3}),
    ("mul", ([2.0, 3.0],), {}),
    ("sub", ("others",), {}),
    ("div", ("others",), {}),
    ("lerp", ("others", 0.25), {}),
    ("addcmul", ("others", "others", 0.5), {}),
    ("addcdiv", ("others", "others"), {"value": 2.0}),
    ("addcmul", ("others", "others", [1.0, 2.0]), {}),
    ("sqrt", (), {}),
    ("neg", (), {}),
    ("maximum", (1.5,), {}),
    ("minimum", ("others",), {}),
    ("pow", (3,), {}),
]


def made(library):
    return [library.tensor([1.0, 2.0]), library.tensor([[3.0]])], [library.tensor([4.0, 0.5]), library.tensor([[2.0]])]


def called(library, function, args, kwargs):
    tensors, others = made(library)
    returned = function(tensors, *[others if arg == "others" else arg for arg in args], **kwargs)
    return [x for t in (*tensors, *(returned or ())) for x in t.flatten().tolist()]


@pytest.mark.conformance
@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
@pytest.mark.parametrize("end", ["", "_"])
def test_lists_are_changed_as_pytorch_changes_them(name, args, kwargs, end):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    ours = called(ex, foreach_function(name + end), args, kwargs)
    theirs = called(torch, getattr(torch, f"_foreach_{name}{end}"), args, kwargs)
    assert ours == pytest.approx(theirs)


def test_a_list_has_one_entry_for_each_tensor_and_a_number_is_for_all():
    tensors, others = made(ex)
    assert [t.tolist() for t in foreach_function("add")(tensors, others)] == [[5.0, 2.5], [[5.0]]]
    foreach_function("mul_")(tensors, 2.0)
    assert [t.tolist() for t in tensors] == [[2.0, 4.0], [[6.0]]]
    assert [n.item() for n in foreach_norm([ex.tensor([3.0, 4.0]), ex.tensor([1.0])])] == [5.0, 1.0]


def test_a_function_that_tensors_do_not_have_is_not_there():
    with pytest.raises(AttributeError, match="_foreach_frobnicate"):
        foreach_function("frobnicate")


def test_tensors_are_grouped_by_their_dtype():
    a, b = ex.ones(2), ex.ones(2, dtype=ex.float64)
    groups = foreach._group_tensors_by_device_and_dtype([[a, b, a], [1, 2, 3], []], with_indices=True)
    (columns, places) = groups[ex.device("cpu"), ex.float32]
    assert columns[0][0] is columns[0][1] is a
    assert (columns[1:], places) == ([[1, 3], [None, None]], [0, 2])
    assert not foreach._has_foreach_support([a], a.device)
