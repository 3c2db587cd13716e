"""Names that are refused in words."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.refused import METHODS, NAMES
from extempo.core.absent_names import RefusedName
from extempo.errors import UnsupportedError


@pytest.mark.parametrize("name", sorted(NAMES))
def test_refused_names_can_be_imported_and_say_why_when_they_are_used(name):
    stands_for = getattr(ex, name)
    scope = {}
    exec(f"from extempo import {name}", scope)
    assert scope[name] is stands_for
    assert not isinstance(ex.zeros(2), stands_for)
    for use in (stands_for, lambda: stands_for.anything):
        with pytest.raises(RefusedName, match=rf"extempo\.{name}: .{{20}}") as caught:
            use()
        assert isinstance(caught.value, UnsupportedError)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_refused_methods_are_absent_and_say_why(name):
    x = ex.zeros(2)
    assert not hasattr(x, name)
    assert not hasattr(ex.Tensor, name)
    with pytest.raises(RefusedName, match=rf"Tensor\.{name}: .{{20}}"):
        getattr(x, name)


def test_unknown_names_are_plain_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'colour'") as caught:
        ex.colour  # noqa: B018 - reading it is the test
    assert not isinstance(caught.value, RefusedName)


@pytest.mark.conformance
def test_every_refused_name_is_one_of_pytorchs():
    torch = pytest.importorskip("torch", reason="compares the names with PyTorch's: pip install -e '.[conformance]'")
    assert [n for n in NAMES if not hasattr(torch, n)] == []
    assert [n for n in METHODS if n not in dir(torch.Tensor)] == []
