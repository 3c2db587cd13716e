"""Kinds of calls: what they keep, and which numbers among inputs may differ between calls."""

from __future__ import annotations

import extempo as ex
from extempo.batching.kinds import CallKind, Input, takes_numbers
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType


def made(shape):
    return CallKind("pair", tuple, (Input(float, False),), (TensorType(shape, ex.float32),), (False,), ())


def test_equal_types_of_results_are_one_object():
    assert made((2, 3)).results[0] is made((2, 3)).results[0]
    assert made((2, 3)).results[0] is not made((3, 2)).results[0]


def test_a_kind_is_shown_with_the_types_of_its_inputs():
    assert repr(made((2,))) == "<kind pair: <class 'float'>>"


def test_numbers_are_operands_of_arithmetic_and_indices_of_rows_but_no_sizes():
    taken = {name: takes_numbers(REGISTRY[name]) for name in ("mul", "embedding", "cross_entropy", "slice", "reshape")}
    assert taken == {"mul": True, "embedding": True, "cross_entropy": True, "slice": False, "reshape": False}
