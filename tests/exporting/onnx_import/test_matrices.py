"""Products of matrices."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.errors import ShapeError


def test_products_are_broadcast(agrees, normal):
    agrees("MatMul", [normal(2, 1, 3, 4), normal(5, 4, 2)])
    agrees("MatMul", [normal(4), normal(4)])
    with pytest.raises(ShapeError, match=r"MatMul \('y0'\)"):
        agrees("MatMul", [normal(3, 4), normal(3, 4)])


@pytest.mark.parametrize("bias", [(5,), (3, 1), (1, 1), (3, 5), None])
def test_gemm_scales_transposes_and_adds(agrees, normal, bias):
    inputs = [normal(4, 3), normal(5, 4), *([normal(*bias)] if bias else [])]
    agrees("Gemm", inputs, alpha=0.5, beta=2.0, transA=1, transB=1)
    agrees("Gemm", [inputs[0].T.copy(), inputs[1].T.copy(), *inputs[2:]])


def test_sums_by_letters_and_determinants(agrees, normal):
    agrees("Einsum", [normal(2, 3, 4), normal(2, 4)], equation="bij, bj -> bi")
    agrees("Det", [normal(2, 3, 3)], atol=1e-4)
    np.testing.assert_allclose(agrees("Einsum", [np.eye(3, dtype=np.float32)], equation="ii")[0], 3.0)
