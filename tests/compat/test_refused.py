"""Names that are refused in words."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.refused import METHODS, NAMES, RefusedName, module_getattr
from extempo.errors import (
    UnsupportedError,
)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_refused_names_are_absent_and_say_why(name):
    assert not hasattr(ex, name)
    with pytest.raises(RefusedName, match=rf"extempo\.{name}: .{{20}}") as caught:
        getattr(ex, name)
    assert isinstance(caught.value, UnsupportedError)
    assert caught.value.name == name


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


def test_a_module_refuses_by_its_table_and_knows_nothing_else():
    ask = module_getattr("extempo.some", {"Old": "use New"})
    with pytest.raises(RefusedName, match=r"extempo\.some\.Old: use New") as caught:
        ask("Old")
    assert caught.value.name == "Old"
    with pytest.raises(AttributeError, match=r"module 'extempo\.some' has no attribute 'Other'"):
        ask("Other")
