"""Triangles and diagonals, compared with NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError

from .helpers import grid


@pytest.mark.parametrize("diagonal", [-4, -1, 0, 2, 9])
def test_triangles_are_numpys(diagonal):
    x = grid(2, 3, 4)
    np.testing.assert_array_equal(x.tril(diagonal).numpy(), np.tril(x.numpy(), diagonal))
    np.testing.assert_array_equal(x.triu(diagonal).numpy(), np.triu(x.numpy(), diagonal))
    np.testing.assert_array_equal(ex.tril_indices(3, 4, diagonal).numpy(), np.tril_indices(3, diagonal, 4))
    np.testing.assert_array_equal(ex.triu_indices(3, 4, diagonal).numpy(), np.triu_indices(3, diagonal, 4))


def test_triangles_keep_dtype_and_drop_nans_outside():
    x = ex.full((2, 2), float("nan"))
    assert x.tril()[0, 1].item() == 0.0
    assert ex.ones(2, 2, dtype=ex.bool).triu(1).tolist() == [[False, True], [False, False]]
    assert ex.tril_indices(2, 2, dtype=ex.int32).dtype is ex.int32
    with pytest.raises(ShapeError, match="tril: expected a matrix"):
        ex.ones(2).tril()
    with pytest.raises(DtypeError, match="expected an integer dtype"):
        ex.triu_indices(2, 2, dtype=ex.float32)


def test_diagonals_are_read_made_and_filled():
    assert ex.diag(ex.tensor([1.0, 2.0]), 1).tolist() == [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    assert ex.diag(grid(2, 3), -1).tolist() == [3.0]
    assert ex.diagflat(ex.tensor([[1, 2]])).tolist() == [[1, 0], [0, 2]]
    assert ex.diag_embed(grid(2, 3)).shape == (2, 3, 3)
    assert ex.diag_embed(grid(2, 3), dim1=0, dim2=2)[1].tolist() == [[0, 1, 0], [0, 4, 0]]
    assert ex.trace(grid(3, 3)).item() == 12.0
    assert ex.tensor([[1, 2], [3, 4]]).trace().dtype is ex.int64
    tall = ex.zeros(5, 2)
    tall.fill_diagonal_(1.0, wrap=True)
    assert tall.tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    assert ex.zeros(2, 2, 2).fill_diagonal_(1.0).sum().item() == 2.0
    copy = ex.diag(grid(2, 2))
    copy.zero_()
    with pytest.raises(ShapeError, match="diag: expected a vector or a matrix"):
        ex.diag(ex.zeros(1, 1, 1))
    with pytest.raises(ShapeError, match="trace: expected a matrix"):
        ex.trace(ex.zeros(3))
