"""What forms share."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.batching.op_kinds import kind_of
from extempo.batching.sizes.forms import element_types, no_function, numels
from extempo.ops.softmaxes import Softmax


def test_pieces_of_elements_have_the_dtypes_of_results():
    kind, _ = kind_of(Softmax, (ex.ones(2, 3),), {"dim": 1}, False)
    inputs, results = element_types(kind)
    assert inputs == kind.inputs
    assert [(t.shape, t.dtype) for t in results] == [((), ex.float32)]


def test_elements_are_counted_shape_by_shape():
    counts = numels([(), (2, 3), (0, 5)])
    assert counts.tolist() == [1, 6, 0]
    assert counts.dtype == np.int64


def test_a_sized_kind_has_no_function_of_one_sample():
    with pytest.raises(AssertionError, match="form"):
        no_function(1)
