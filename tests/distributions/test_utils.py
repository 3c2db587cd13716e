"""What distributions share."""

from __future__ import annotations

import pytest

import extempo as ex
import extempo.distributions as d
from extempo.errors import ShapeError


def test_triangles_go_to_vectors_and_back():
    for diagonal in (-2, -1, 0, 1):
        matrix = ex.arange(1.0, 17.0).reshape(4, 4).tril(diagonal)
        vector = d.utils.tril_matrix_to_vec(matrix, diagonal)
        assert ex.equal(d.utils.vec_to_tril_matrix(vector, diagonal), matrix)
    with pytest.raises(ShapeError, match="has no diagonal"):
        d.utils.tril_matrix_to_vec(ex.zeros(2, 2), 2)
