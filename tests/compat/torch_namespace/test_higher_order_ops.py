"""PyTorch's functions for loops are found where PyTorch has them."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import higher_order_ops


def test_loops_are_those_of_extempo():
    assert higher_order_ops.while_loop is ex.while_loop
    assert higher_order_ops.scan is ex.scan
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        higher_order_ops.nothing  # noqa: B018 - it is asked for
