"""Named stretches of code run as they are; profiling is refused in words."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import profiler


def test_a_named_stretch_runs_as_it_is():
    with profiler.record_function("step") as named:
        assert named.name == "step"
    assert profiler.record_function("sum")(sum)([1, 2]) == 3


def test_profiling_is_refused_in_words():
    with pytest.raises(ex.errors.UnsupportedError, match="cProfile"):
        profiler.profile()
