"""Rules are found by the names that ops state, and regular tensors are aligned with rows before an op runs."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import REGISTRY, Refuse
from extempo.errors import ShapeError, UnsupportedError
from extempo.ragged_tensors import rules
from extempo.ragged_tensors.rows import Rows
from extempo.ragged_tensors.tensor import RaggedTensor

from .looped import ragged_leaf


def test_every_rule_that_an_op_names_is_there():
    named = {op.ragged for op in REGISTRY.values() if isinstance(op.ragged, str)}
    assert {"elementwise", "matrices", "rowwise.looped", "products.matmul"} <= named
    assert all(callable(rules.named_rule(name)) for name in named)


def test_every_op_names_a_rule_or_is_a_function_of_rows_or_refuses():
    for op in REGISTRY.values():
        assert isinstance(op.ragged, str | Refuse) or callable(op.ragged), op.name


def test_what_an_op_refuses_is_refused_by_the_name_that_the_user_called():
    with pytest.raises(UnsupportedError, match=r"^unique: not for ragged tensors; loop over its rows"):
        ragged_leaf([2, 1]).unique()


def test_a_tensor_of_one_number_for_each_row_is_repeated_for_its_elements():
    x = ragged_leaf([2, 0, 1])
    aligned = rules.along(x, ex.tensor([[1.0], [2.0], [3.0]]), "add")
    assert aligned.tolist() == [1.0, 1.0, 3.0]


def test_a_tensor_that_lies_along_the_ragged_dimension_does_not_broadcast():
    x = ragged_leaf([2, 2])
    with pytest.raises(ShapeError, match=r"^add: a tensor of shape \(2, 2\) does not broadcast with \(2, \*\)"):
        rules.along(x, ex.zeros(2, 2), "add")
    with pytest.raises(ShapeError, match="dimension 0 counts rows, of which there are 2"):
        rules.along(x, ex.zeros(3, 1), "add")


def test_rows_of_other_lengths_or_in_another_dimension_do_not_go_together():
    x = ragged_leaf([2, 1], 3)
    assert rules.common("add", (x, 1.0, ragged_leaf([2, 1], 3))) is x
    with pytest.raises(ShapeError, match=r"got lengths \[2, 1\] and \[1, 2\]"):
        rules.common("add", (x, ragged_leaf([1, 2], 3)))
    with pytest.raises(ShapeError, match="do not meet"):
        rules.common("add", (x, ragged_leaf([2, 1], 3, dim=2)))


def test_a_dimension_goes_to_the_front_and_back_again():
    t = ex.from_numpy(np.arange(24.0).reshape(2, 3, 4))
    for dim in range(3):
        assert rules.from_front(rules.to_front(t, dim), dim).equal(t)
    assert rules.to_front(t, 1).shape == (3, 2, 4)


def test_regular_dimensions_are_counted_without_the_rows():
    x = RaggedTensor(ex.zeros(4, 3, 5), Rows.of_lengths([1, 3]))
    assert rules.regular_dims(x, (2, 3), "sum") == (1, 2)
    for dim in (0, 1):
        with pytest.raises(UnsupportedError, match=r"^flip along"):
            rules.regular_dims(x, (dim,), "flip")
