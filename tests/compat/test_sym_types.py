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
