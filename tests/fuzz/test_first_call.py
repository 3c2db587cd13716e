"""Every op, through several histories in processes of their own, shows the same."""

from __future__ import annotations

import os

import pytest

from . import first_call
from .apart import texts_of

N_GROUPS = 6

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a history begins with a fork")


@pytest.mark.parametrize("group", range(N_GROUPS))
def test_no_op_depends_on_what_ran_before(group):
    names = first_call.op_names()[group::N_GROUPS]
    assert texts_of("first_call", "sweep", names) == ""


def test_what_differs_is_told():
    one, other = (first_call.Sight(f"call {n}", "values", (("tensor", "t", (1,), (4,), bytes([n])),)) for n in (1, 2))
    assert first_call.differences([one, one]) == []
    (text,) = first_call.differences([one, other])
    assert text.startswith("values of [call 2] are not those of [call 1]")
