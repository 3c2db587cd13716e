"""A counter can be made, and refuses to count."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace.flop_counter import FlopCounterMode


def test_a_counter_that_nobody_enters_has_counted_nothing():
    counter = FlopCounterMode(display=False)
    assert (counter.get_total_flops(), counter.get_flop_counts()) == (0, {"Global": {}})


def test_counting_is_refused_in_words():
    with pytest.raises(ex.errors.UnsupportedError, match="FlopCounterMode: ops are not counted"), FlopCounterMode():
        pass
