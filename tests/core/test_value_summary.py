"""The one line that sums a tensor's values up, and print of large tensors."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core.value_summary import summarised


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "float64 (0,), empty"),
        ([0.0, 0.0], "float64 (2,), all 0, 2 zeros"),
        ([np.nan, np.nan], "float64 (2,), 2 nan"),
        ([1.0, np.inf, -np.inf, np.nan], "float64 (4,), all 1, 1 nan (25%), 2 inf (50%)"),
        ([0.0, 4.0], "float64 (2,), 0 .. 4, mean 2, std 2, 1 zeros (50%)  █······█"),
        ([-1e308, 1e308], "float64 (2,), -1e+308 .. 1e+308, mean 0, std inf  █······█"),
    ],
)
def test_values_are_summed_up_in_one_line(values, text):
    assert str(summarised(np.array(values), "float64")) == text


def test_only_print_of_a_tensor_that_is_not_shown_whole_has_the_line():
    large, small = ex.zeros(1001), ex.zeros(1000)
    assert str(large) == f"{large!r}\n# float32 (1001,), all 0, 1,001 zeros"
    assert str(small) == repr(small)
    assert f"{large}" == str(large)


def test_any_dtype_has_a_summary():
    for dtype in (ex.bool, ex.uint8, ex.int64, ex.float16, ex.bfloat16, ex.float64):
        assert ex.inspect.look(ex.ones(3, dtype=dtype)).mean == 1.0
