"""ex.linalg: linear algebra by torch.linalg's names and meanings.

Matrices are the last two dimensions of a tensor, all others a batch. A matrix that an operation has no answer for
raises `LinAlgError` (another name of `errors.NumericalError`), saying which matrix of the batch it is. Only `eig` and
`eigvals`, whose results are complex, are refused.
"""

from __future__ import annotations

from .core.absent_names import explain_absent
from .core.tensor import Tensor
from .errors import NumericalError as LinAlgError
from .ops.contraction import linalg_cross as cross
from .ops.contraction import linalg_vander as vander
from .ops.contraction import multi_dot, vecdot
from .ops.decompositions import eig, eigh, eigvals, eigvalsh, householder_product, qr, svd, svdvals
from .ops.factors import (
    cholesky,
    cholesky_ex,
    ldl_factor,
    ldl_factor_ex,
    ldl_solve,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
)
from .ops.matrices import linalg_det as det
from .ops.matrices import linalg_matrix_power as matrix_power
from .ops.matrices import linalg_slogdet as slogdet
from .ops.matrices import lstsq, matrix_exp, matrix_rank, pinv
from .ops.norms import cond, matrix_norm, vector_norm
from .ops.norms import linalg_norm as norm
from .ops.products import matmul
from .ops.systems import inv, inv_ex, solve, solve_ex, solve_triangular, tensorinv, tensorsolve

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices, as a new last dimension that shares memory.

    >>> ex.linalg.diagonal(ex.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return A.diagonal(offset, dim1, dim2)


explain_absent(__name__)
