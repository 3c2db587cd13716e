"""Inner names of torch.distributions.utils."""

from __future__ import annotations

import extempo as ex
from extempo.compat.torch_namespace.distribution_internals import _standard_normal, _sum_rightmost


def test_draws_have_the_shape_and_dtype_that_are_asked_for():
    draws = _standard_normal(ex.Size([2, 3]), dtype=ex.float64, device=None)
    assert draws.shape == (2, 3)
    assert draws.dtype == ex.float64
    assert _sum_rightmost(ex.ones(2, 3), 1).tolist() == [3.0, 3.0]
