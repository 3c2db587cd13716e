"""Constraints of vectors, of matrices and of tensors part by part."""

from __future__ import annotations

from collections.abc import Sequence

from ... import ops
from ...core.tensor import Tensor
from ...core.types import finfo
from ...errors import ShapeError
from ...linalg import cholesky_ex, eigvalsh
from .base import Constraint
from .scalars import Bound

# ---- vectors


class _Simplex(Constraint):
    """Vectors of nonnegative numbers that add up to 1, within 1e-6 or the rounding of a shorter dtype.

    >>> ex.distributions.constraints.simplex.check(ex.tensor([[0.2, 0.8], [0.5, 0.6]]))
    tensor([ True, False])
    """

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        tolerance = max(1e-6, 10 * finfo(value.dtype).eps) if value.is_floating_point() else 1e-6
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < tolerance)


class _OneHot(Constraint):
    """Vectors of one 1 and otherwise 0.

    >>> ex.distributions.constraints.one_hot.check(ex.tensor([[0, 1], [1, 1]]))
    tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    """Vectors of nonnegative numbers that add up to at most `upper_bound`.

    >>> ex.distributions.constraints.multinomial(3).check(ex.tensor([[1, 2], [2, 2]]))
    tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Bound) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ops.le(value.sum(-1), self.upper_bound)


# ---- matrices


class _Square(Constraint):
    """Matrices with as many rows as columns.

    >>> ex.distributions.constraints.square.check(ex.zeros(2, 3))
    tensor(False)
    """

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return ops.full(value.shape[:-2], value.shape[-2] == value.shape[-1])


class _Symmetric(_Square):
    """Square matrices equal to their transpose, within 1e-6.

    >>> ex.distributions.constraints.symmetric.check(ex.tensor([[1.0, 2.0], [3.0, 1.0]]))
    tensor(False)
    """

    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return ops.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues.

    >>> ex.distributions.constraints.positive_semidefinite.check(ex.tensor([[1.0, 1.0], [1.0, 1.0]]))
    tensor(True)
    """

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return symmetric & (eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with a Cholesky factor.

    >>> ex.distributions.constraints.positive_definite.check(ex.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor(True)
    """

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return symmetric & (cholesky_ex(value.detach()).info == 0)


class _LowerTriangular(Constraint):
    """Matrices that are 0 above the diagonal.

    >>> ex.distributions.constraints.lower_triangular.check(ex.tensor([[1.0, 1.0], [0.0, 1.0]]))
    tensor(False)
    """

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).all(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices with a positive diagonal.

    >>> ex.distributions.constraints.lower_cholesky.check(ex.tensor([[1.0, 0.0], [3.0, 2.0]]))
    tensor(True)
    """

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Lower triangular matrices with a positive diagonal and rows of length 1.

    >>> ex.distributions.constraints.corr_cholesky.check(ex.tensor([[1.0, 0.0], [0.6, 0.8]]))
    tensor(True)
    """

    def check(self, value: Tensor) -> Tensor:
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        return super().check(value) & ((value.square().sum(-1) - 1).abs() < tolerance).all(-1)


# ---- tensors of parts


class _Parts(Constraint):
    """Tensors made of parts along a dimension, each with a constraint of its own."""

    def __init__(self, cseq: Sequence[Constraint], dim: int) -> None:
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:
        return any(part.is_discrete for part in self.cseq)

    @property
    def event_dim(self) -> int:
        return max(part.event_dim for part in self.cseq)


class _Cat(_Parts):
    """Parts joined along a dimension, of the lengths given (1 each, unless given).

    >>> constraints = ex.distributions.constraints
    >>> parts = constraints.cat([constraints.positive, constraints.real], dim=-1, lengths=[1, 2])
    >>> parts.check(ex.tensor([1.0, -1.0, 0.0]))
    tensor([True, True, True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ShapeError(f"cat: expected one length for each of {len(self.cseq)} parts, got {len(self.lengths)}")

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return ops.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Parts):
    """Parts stacked along a dimension.

    >>> constraints = ex.distributions.constraints
    >>> constraints.stack([constraints.positive, constraints.real], dim=-1).check(ex.tensor([[1.0, -1.0], [-1.0, 0.0]]))
    tensor([[ True,  True],
            [False,  True]])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:
        dims = super().event_dim
        return dims + 1 if self.dim + dims < 0 else dims

    def check(self, value: Tensor) -> Tensor:
        parts = value.unbind(self.dim)
        return ops.stack([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)
