"""Factors and systems of matrices as loops of other ops: what these ops are in formats that have no LAPACK (ONNX).

Matrices are in the last two dimensions, any batch in front; everything is computed in float64. `flow` has the functions
of branches and loops. Column by column, each step touches the whole matrix: right for any size, meant for small ones.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..core.types import broadcast_shapes, int32, int64


def _flat(a: Tensor) -> Tensor:
    """The matrices of a batch one after another: (matrix, row, column), in float64."""
    return a.double().reshape(-1 if a.ndim != 2 else 1, *a._type.shape[-2:]) if _has_elements(a) else _no_matrices(a)


def _has_elements(a: Tensor) -> bool:
    return all(not isinstance(size, int) or size > 0 for size in a._type.shape)


def _no_matrices(a: Tensor) -> Tensor:
    n = 1
    for size in a._type.shape[:-2]:
        n *= size
    return a.double().reshape(n, *a._type.shape[-2:])


def _column(a: Tensor, k: Tensor) -> Tensor:
    """Column k of each matrix, (matrix, row)."""
    return a.index_select(2, k.reshape(1)).squeeze(2)


def _row(a: Tensor, k: Tensor) -> Tensor:
    return a.index_select(1, k.reshape(1)).squeeze(1)


def _exchanged(a: Tensor, k: Tensor, chosen: Tensor) -> Tensor:
    """Rows k and `chosen` (matrix,) of each matrix in each other's place."""
    rows = ops.arange(a._type.shape[1])
    order = ops.where(ops.eq(rows, k), chosen.unsqueeze(1), rows)
    order = ops.where(ops.eq(rows, chosen.unsqueeze(1)), k, order)
    return a.gather(1, order.unsqueeze(2).expand(a._type.shape))


def lu_factor(flow: Any, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """L and U in one matrix, pivots from 1, and info: P A = L U with row exchanges."""
    shape = a._type.shape
    n_pivots = min(shape[-2:])
    if isinstance(n_pivots, int) and n_pivots == 0:
        return a, ops.zeros((*shape[:-2], 0), dtype=int32), ops.zeros(shape[:-2], dtype=int32)
    rows, columns = ops.arange(shape[-2]), ops.arange(shape[-1])

    def step(state: tuple[Tensor, Tensor], k: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        lu, info = state
        chosen = ops.where(ops.ge(rows, k), ops.abs(_column(lu, k)), -1.0).argmax(1)
        lu = _exchanged(lu, k, chosen)
        upper = _row(lu, k)
        pivot = upper.index_select(1, k.reshape(1))
        is_zero = ops.eq(pivot, 0.0)
        info = ops.where(ops.logical_and(is_zero.squeeze(1), ops.eq(info, 0)), k + 1, info)
        factors = ops.where(rows > k, _column(lu, k) / ops.where(is_zero, 1.0, pivot), 0.0)
        lu = lu - factors.unsqueeze(2) * ops.where(columns > k, upper, 0.0).unsqueeze(1)
        below = ops.logical_and(ops.eq(columns, k), (rows > k).unsqueeze(1))
        return (ops.where(below, factors.unsqueeze(2), lu), info), chosen + 1

    flat = _flat(a)
    start = flat, ops.zeros((flat._type.shape[0],), dtype=int64)
    (lu, info), pivots = flow.scan(step, start, ops.arange(n_pivots))
    lead = shape[:-2]
    return lu.reshape(shape), pivots.mT.reshape(*lead, n_pivots).to(int32), info.reshape(lead).to(int32)


def permutation(flow: Any, pivots: Tensor, n_rows: int) -> Tensor:
    """Row i of P A is row order[i] of A, after the exchanges that pivots (..., steps) list: (..., n_rows)."""
    lead, n_steps = pivots._type.shape[:-1], pivots._type.shape[-1]
    flat = pivots.long().reshape(1, n_steps) if pivots.ndim == 1 else pivots.long().reshape(-1, n_steps)

    def step(state: tuple[Tensor, Tensor], chosen: Tensor) -> tuple[tuple[Tensor, Tensor], None]:
        order, k = state
        return (_exchanged(order, k, chosen - 1), k + 1), None

    start = ops.arange(n_rows).unsqueeze(1).expand(flat._type.shape[0], n_rows, 1).clone()
    (order, _), _ = flow.scan(step, (start, ops.tensor(0)), flat.mT)
    found: Tensor = order.reshape(*lead, n_rows)
    return found


def solve(flow: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """X with A X = B, and info (the first zero pivot, from 1), by Gauss and Jordan's elimination with row exchanges."""
    n, n_right = b._type.shape[-2:]
    lead = broadcast_shapes(a._type.shape[:-2], b._type.shape[:-2])
    if isinstance(n, int) and n == 0:
        return b.expand(*lead, n, n_right), ops.zeros(lead, dtype=int32)
    both = ops.cat([a.double().expand(*lead, n, n), b.double().expand(*lead, n, n_right)], -1)
    rows = ops.arange(n)

    def step(state: tuple[Tensor, Tensor], k: Tensor) -> tuple[tuple[Tensor, Tensor], None]:
        both, info = state
        chosen = ops.where(ops.ge(rows, k), ops.abs(_column(both, k)), -1.0).argmax(1)
        both = _exchanged(both, k, chosen)
        upper = _row(both, k)
        pivot = upper.index_select(1, k.reshape(1))
        info = ops.where(ops.logical_and(ops.eq(pivot.squeeze(1), 0.0), ops.eq(info, 0)), k + 1, info)
        upper = upper / pivot
        is_pivot = ops.eq(rows, k).unsqueeze(1)
        others = both - _column(both, k).unsqueeze(2) * upper.unsqueeze(1)
        return (ops.where(is_pivot, upper.unsqueeze(1), others), info), None

    flat = _flat(both)
    start = flat, ops.zeros((flat._type.shape[0],), dtype=int64)
    (done, info), _ = flow.scan(step, start, rows)
    result = done.narrow(2, n, n_right).reshape(*lead, n, n_right)
    return result, info.reshape(lead).to(int32)


def solve_triangular(flow: Any, a: Tensor, b: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    """X with A X = B, row by row from the end that has one element."""
    n, n_right = b._type.shape[-2:]
    lead = broadcast_shapes(a._type.shape[:-2], b._type.shape[:-2])
    matrix, right = _flat(a.double().expand(*lead, n, n)), _flat(b.double().expand(*lead, n, n_right))
    rows = ops.arange(n)

    def step(x: Tensor, k: Tensor) -> tuple[Tensor, None]:
        own = _row(matrix, k)
        others = ops.where(rows > k if upper else rows < k, own, 0.0)
        found = _row(right, k) - ops.matmul(others.unsqueeze(1), x).squeeze(1)
        found = found if unitriangular else found / own.index_select(1, k.reshape(1))
        return ops.where(ops.eq(rows, k).unsqueeze(1), found.unsqueeze(1), x), None

    x, _ = flow.scan(step, ops.zeros_like(right), rows, reverse=upper)
    solved: Tensor = x.reshape(*lead, n, n_right)
    return solved


def cholesky(flow: Any, a: Tensor) -> tuple[Tensor, Tensor]:
    """L with A = L @ L.T, column by column, and info: the order of the first minor that is not positive, or 0."""
    shape = a._type.shape
    matrix = _flat(a)
    rows = ops.arange(shape[-1])

    def step(state: tuple[Tensor, Tensor], k: Tensor) -> tuple[tuple[Tensor, Tensor], None]:
        factor, info = state
        left = _column(matrix, k) - ops.matmul(factor, _row(factor, k).unsqueeze(2)).squeeze(2)
        pivot = left.index_select(1, k.reshape(1))
        is_bad = ops.logical_not(pivot.squeeze(1) > 0.0)
        info = ops.where(ops.logical_and(is_bad, ops.eq(info, 0)), k + 1, info)
        column = ops.where(ops.ge(rows, k), left / ops.sqrt(pivot), 0.0)
        return (ops.where(ops.eq(rows, k), column.unsqueeze(2), factor), info), None

    start = ops.zeros_like(matrix), ops.zeros((matrix._type.shape[0],), dtype=int64)
    (factor, info), _ = flow.scan(step, start, rows)
    return factor.reshape(shape), info.reshape(shape[:-2]).to(int32)


def householder(flow: Any, a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """R (..., rows, columns), Q (..., rows, rows), the reflectors (..., rows, steps) and their factors (..., steps).

    Signs are LAPACK's: a column that needs no reflection keeps its own.
    """
    shape = a._type.shape
    lead, (n_rows, n_columns) = shape[:-2], shape[-2:]
    n_steps = min(n_rows, n_columns)
    matrix, rows = _flat(a), ops.arange(n_rows)

    def step(state: tuple[Tensor, Tensor], k: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        r, q = state
        column = _column(r, k)
        first = column.index_select(1, k.reshape(1))
        tail = ops.where(rows > k, column, 0.0)
        rest = (tail * tail).sum(1, keepdim=True)
        is_done = ops.eq(rest, 0.0)
        length = ops.copysign(ops.sqrt(first * first + rest), -first)
        vector = ops.where(ops.eq(rows, k), 1.0, tail / ops.where(is_done, 1.0, first - length))
        factor = ops.where(is_done, 0.0, (length - first) / ops.where(is_done, 1.0, length))
        along = vector.unsqueeze(2)
        weighed = along * factor.unsqueeze(2)
        r = r - weighed * ops.matmul(along.mT, r)
        q = q - ops.matmul(q, along) * weighed.mT
        return (r, q), (vector, factor.squeeze(1))

    identity = ops.eye(n_rows).double().expand(matrix._type.shape[0], n_rows, n_rows)
    (r, q), (vectors, factors) = flow.scan(step, (matrix, identity), ops.arange(n_steps))
    return (
        r.reshape(shape).triu(),
        q.reshape(*lead, n_rows, n_rows),
        vectors.permute(1, 2, 0).reshape(*lead, n_rows, n_steps),
        factors.mT.reshape(*lead, n_steps),
    )


_TERMS = 18  # of the exponential's series, for a matrix whose norm is at most 1/2


def matrix_exp(flow: Any, a: Tensor) -> Tensor:
    """exp(A): the series of a matrix that is halved until it is small, squared as often as it was halved."""
    shape = a._type.shape
    matrix = _flat(a)
    norm = ops.abs(matrix).sum(1).sum(1)
    n_halved = ops.clamp(ops.ceil(ops.log2(ops.clamp(norm, min=1e-30))) + 1.0, min=0.0).reshape(-1, 1, 1)
    small = matrix * ops.exp2(-n_halved)
    identity = ops.eye(shape[-1]).double()
    result = identity.expand(matrix._type.shape).clone()
    for k in range(_TERMS, 0, -1):
        result = identity + ops.matmul(small, result) / float(k)

    def square(n: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return n + 1.0, ops.where(n < n_halved, ops.matmul(x, x), x)

    start = ops.tensor(0.0).double(), result
    done: Tensor = flow.while_loop(lambda n, x: (n_halved > n).any(), square, start)[1]
    return done.reshape(shape)
