"""From tensors to arrays and back."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.distributed.transfers import RedOpType, as_bytes, signature, summable, values_of, write


def test_narrow_floats_are_summed_in_float32_and_bools_as_bits():
    values, name = summable("f", values_of("f", ex.ones(2, dtype=ex.bfloat16)), RedOpType.AVG)
    assert (values.dtype, name) == (np.float32, "sum")
    values, name = summable("f", values_of("f", ex.tensor([True])), RedOpType.SUM)
    assert (values.dtype, name) == (np.uint8, "bor")


def test_writing_counts_as_a_change_of_the_tensor():
    x = ex.zeros(2, 2, requires_grad=True)
    y = (x * x).sum()
    before = x._version
    write(x, np.full((2, 2), 3.0, np.float32))
    assert x._version == before + 1
    assert x.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    with pytest.raises(ex.errors.OverwrittenError):
        y.backward()


def test_what_ranks_come_for_names_dtype_and_size():
    values = values_of("f", ex.zeros(2, 3))
    assert signature("all_reduce", values, "sum") == "all_reduce(float32, 6 values, sum)"
    assert as_bytes(values).shape == (24,)
