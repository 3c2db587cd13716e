"""look: one line of any tensor."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex


@pytest.mark.parametrize("make", [lambda: ex.ones(2), lambda: np.ones(2), lambda: ex.ragged([[1.0], [1.0]])])
def test_tensors_arrays_and_ragged_tensors_are_summed_up(make):
    assert "all 1" in str(ex.inspect.look(make()))


def test_what_is_no_tensor_is_refused():
    with pytest.raises(ex.errors.DtypeError, match="look: expected a tensor, got list"):
        ex.inspect.look([1.0])
