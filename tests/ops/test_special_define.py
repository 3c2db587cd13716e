"""Functions that PyTorch has in `special` only: names, texts, `out=`, and no method."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.core.op import REGISTRY
from extempo.errors import DtypeError
from extempo.ops.special_define import named, of_one, of_two


def test_a_function_has_the_name_of_the_op_without_special():
    fn = of_one(REGISTRY["special_entr"])
    assert fn.__name__ == fn.__qualname__ == "entr"
    assert fn.__doc__ == REGISTRY["special_entr"].__doc__
    assert not hasattr(ex.Tensor, "entr")


def test_results_of_one_and_of_two_operands_go_into_out_in_its_dtype():
    out = ex.empty(0, dtype=ex.float64)
    assert of_one(REGISTRY["special_entr"])(ex.tensor([1.0]), out=out) is out
    assert out.tolist() == [0.0]
    out = ex.empty(1, dtype=ex.float64)
    assert of_two(REGISTRY["special_xlog1py"])(2.0, ex.tensor([0.0]), out=out) is out
    assert out.tolist() == [0.0]


def test_what_is_no_number_is_refused():
    with pytest.raises(DtypeError, match="special"):
        of_one(REGISTRY["special_entr"])("x")


def test_a_function_made_elsewhere_is_named_for_users():
    fn = named(lambda input: input, "same", "The input.")
    assert (fn.__name__, fn.__qualname__, fn.__doc__) == ("same", "same", "The input.")
