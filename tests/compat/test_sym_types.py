"""Classes that programs ask about and that nothing is an instance of."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import UnsupportedError


@pytest.mark.parametrize("name", ["SymInt", "SymFloat", "SymBool"])
def test_no_number_is_symbolic_and_none_can_be_made(name):
    cls = getattr(ex, name)
    assert not isinstance(ex.zeros(3).shape[0], cls)
    assert not isinstance(1.5, cls)
    with pytest.raises(UnsupportedError, match=f"{name}: .* use int, float or bool"):
        cls(None)


def test_the_three_classes_can_be_told_apart():
    assert len({ex.SymInt, ex.SymFloat, ex.SymBool}) == 3


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("sym_max", (2, 3.0)),
        ("sym_max", (3, 2.0)),
        ("sym_min", (2, 3.0)),
        ("sym_min", (2, 3)),
        ("sym_int", (-2.5,)),
        ("sym_float", (2,)),
        ("sym_not", (0,)),
        ("sym_sqrt", (4,)),
        ("sym_sum", ([1, 2, 3],)),
        ("sym_ite", (True, 1, 2)),
    ],
)
def test_functions_of_sizes_are_pytorchs(name, args):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    expected, found = getattr(torch, name)(*args), getattr(ex, name)(*args)
    assert (type(found), found) == (type(expected), expected)
