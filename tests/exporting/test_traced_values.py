"""Variables that are not set say so when they are used; writes into tensors from outside are tried again with those."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import ExportError
from extempo.exporting.traced_values import UNSET, Unset, equal, is_value, number, shown, with_writes
from extempo.exporting.tracer import OutsideWrite


@pytest.mark.parametrize("use", [lambda x: x + 1, lambda x: 1 - x, bool, len, lambda x: x.shape, lambda x: x[0], iter])
def test_what_is_not_set_says_so_when_it_is_used(use):
    with pytest.raises(ExportError, match="a variable is used before it is set"):
        use(UNSET)
    with pytest.raises(ExportError, match="set it in both"):
        use(Unset("set it in both"))


def test_tensors_and_numbers_are_values_and_texts_are_not():
    assert all(map(is_value, (ex.ones(2), 1, 2.0, True)))
    assert not any(map(is_value, ("a", None, [1])))
    assert equal("a", "a")
    assert not equal(1, 1.0)
    assert number(2, ex.float32).dtype is ex.float32
    assert shown(ex.ones(2)) == "f32[2]"


def test_a_write_from_outside_is_tried_again_with_its_tensor():
    a, b = ex.ones(1), ex.ones(1)

    def run(bases):
        for x in (a, b):
            if not any(x is base for base in bases):
                raise OutsideWrite(x, "written")
        return len(bases)

    assert with_writes(run) == 2

    def always(bases):
        raise OutsideWrite(a, "written")

    with pytest.raises(OutsideWrite):
        with_writes(always)
