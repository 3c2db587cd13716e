"""Padding by constants, reflections and repetitions."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ShapeError, UnsupportedError
from extempo.ops.padding import pad
from extempo.testing import check_grad

from .helpers import grid


def test_constant_padding_lengthens_and_cuts():
    x = grid(2, 3)
    np.testing.assert_array_equal(
        pad(x, (1, 2), value=9.0).numpy(), np.pad(x.numpy(), ((0, 0), (1, 2)), constant_values=9)
    )
    assert ex.constant_pad_nd(x, (-1, 1, 0, -1), 5).tolist() == [[1, 2, 5]]
    assert pad(x, ()).tolist() == x.tolist()
    assert pad(ex.tensor([True]), (1, 0)).tolist() == [False, True]
    with pytest.raises(ShapeError, match="leaves nothing of dimension 1 of size 3"):
        pad(x, (-2, -2))
    with pytest.raises(ShapeError, match="at most 2 dimensions"):
        pad(x, (1, 1, 1, 1, 1, 1))


@pytest.mark.parametrize(("mode", "numpys"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_repeating_padding_is_numpys(mode, numpys):
    x = grid(2, 3, 4)
    expected = np.pad(x.numpy(), ((0, 0), (1, 2), (3, 1)), mode=numpys)
    np.testing.assert_array_equal(pad(x, (3, 1, 1, 2), mode).numpy(), expected)
    y = ex.tensor(np.random.default_rng(0).normal(size=(1, 2, 3)), requires_grad=True)
    check_grad(lambda a: pad(a, (2, 1), mode), (y,))


def test_repeating_padding_has_limits():
    with pytest.raises(ShapeError, match=r"'reflect' lengthens dim.* 2 of size 3 by 2 at most"):
        pad(grid(1, 2, 3), (3, 0), "reflect")
    with pytest.raises(ShapeError, match=r"'circular' lengthens dim.* 2 of size 3 by 3 at most"):
        pad(grid(1, 2, 3), (4, 0), "circular")
    with pytest.raises(UnsupportedError, match="padding of 1 dimensions takes 2 or 3"):
        pad(grid(3), (1, 1), "reflect")
    with pytest.raises(ShapeError, match="takes no value"):
        pad(grid(2, 3), (1, 1), "reflect", 2.0)
    with pytest.raises(ShapeError, match="mode must be constant"):
        pad(grid(2, 3), (1, 1), "mirror")
