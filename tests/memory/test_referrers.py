"""Whoever refers to a tensor, in words."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.memory.referrers import holder, is_tensor, variable_of

KEPT = ex.ones(2)


class Box:
    pass


def test_variables_of_functions_that_run_are_found_before_anything_else():
    x = ex.ones(3)
    boxes = {"a": [x]}
    assert variable_of(x) == f"'x' of {test_variables_of_functions_that_run_are_found_before_anything_else.__name__}"
    alone = boxes["a"][0] + 1
    boxes["b"] = [alone]
    del x, alone
    assert variable_of(boxes["b"][0]).startswith("'boxes' (dict of 2)")


@pytest.mark.usefixtures("modules_are_seen")
def test_globals_attributes_and_closures_have_names():
    assert holder(KEPT, set()).endswith("test_referrers.KEPT")
    box = Box()
    box.value = ex.ones(1)
    assert holder(box.value, set()) == "Box.value"

    def closure():
        inner = ex.ones(4)
        return lambda: inner

    fn = closure()
    assert "'inner', a variable of" in holder(fn(), set())


def test_tensors_are_known_as_such():
    assert is_tensor(ex.ones(3))
    assert not is_tensor(3)
