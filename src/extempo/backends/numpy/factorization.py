"""What numpy.linalg lacks: LU and LDL factors, triangular systems, the matrix exponential, in NumPy.

Arrays (..., rows, columns) in, float64 arrays out: single precision saves no time here that is worth its errors. LU,
triangular systems and the exponential run over the whole batch at once; LDL, whose pivoting differs from matrix to
matrix, one by one. Layouts of LU, LDL and their pivots (counted from 1) are LAPACK's (getrf, sytrf 'L').
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_LU_BLOCK = 48  # columns eliminated one by one before the rest is updated by a matrix product


def first_failure(fn: Callable[[Array], Any], a: Array) -> tuple[int, ...] | None:
    """The batch index of the first matrix that `fn` raises LinAlgError for; None if it raises for none alone."""
    for index in np.ndindex(a.shape[:-2]):
        try:
            fn(a[index])
        except np.linalg.LinAlgError:
            return index
    return None


# ---- LU


def lu_factor(a: Array) -> tuple[Array, Array, Array]:
    """(L and U in one matrix, pivots, info): P A = L U with row exchanges; info is the first zero pivot, 0 if none."""
    lead, (rows, columns) = a.shape[:-2], a.shape[-2:]
    n_pivots = min(rows, columns)
    n_matrices = math.prod(lead)
    lu = a.astype(np.float64).reshape(n_matrices, rows, columns)
    pivots = np.zeros((n_matrices, n_pivots), np.int32)
    info = np.zeros(n_matrices, np.int32)
    for start in range(0, n_pivots, _LU_BLOCK):
        stop = min(start + _LU_BLOCK, n_pivots)
        for column in range(start, stop):
            _eliminate(lu, column, stop, pivots, info)
        if stop < columns:
            unit = np.tril(lu[:, start:stop, start:stop], -1) + np.eye(stop - start)
            # The multipliers are at most 1, so LAPACK's own pivoting leaves this triangular system alone.
            lu[:, start:stop, stop:] = np.linalg.solve(unit, lu[:, start:stop, stop:])
            lu[:, stop:, stop:] -= lu[:, stop:, start:stop] @ lu[:, start:stop, stop:]
    return lu.reshape(a.shape), pivots.reshape(*lead, n_pivots), info.reshape(lead)


def _eliminate(lu: Array, column: int, stop: int, pivots: Array, info: Array) -> None:
    """One column of all matrices: bring the largest element up, divide by it, update the block's other columns."""
    each = np.arange(len(lu))
    chosen = column + np.abs(lu[:, column:, column]).argmax(axis=1)
    pivots[:, column] = chosen + 1
    upper = lu[each, chosen]
    lu[each, chosen] = lu[:, column]
    lu[:, column] = upper
    pivot = upper[:, column]
    singular = pivot == 0
    info[singular & (info == 0)] = column + 1
    below = lu[:, column + 1 :, column]
    below /= np.where(singular, 1.0, pivot)[:, None]
    lu[:, column + 1 :, column + 1 : stop] -= below[:, :, None] * lu[:, column, None, column + 1 : stop]


def permutation(pivots: Array, n_rows: int) -> Array:
    """The row order that a list of exchanges leads to: row i of P A is row order[i] of A."""
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    order = np.tile(np.arange(n_rows), (len(flat), 1))
    each = np.arange(len(flat))
    for i in range(flat.shape[1]):
        other = flat[:, i] - 1
        order[each, i], order[each, other] = order[each, other], order[each, i]
    return order.reshape(*pivots.shape[:-1], n_rows)


# ---- triangular systems


def solve_triangular(a: Array, b: Array, upper: bool, unitriangular: bool) -> Array:
    """x with a x = b, of which only one triangle is read; a zero on the diagonal gives inf and NaN."""
    a = (np.triu if upper else np.tril)(a).astype(np.float64)
    if unitriangular:
        diagonal = np.arange(a.shape[-1])
        a[..., diagonal, diagonal] = 1.0
    if not upper:  # reversed rows and columns make a lower triangle an upper one, which LU leaves as it is
        return solve_triangular(a[..., ::-1, ::-1], b[..., ::-1, :], True, False)[..., ::-1, :]
    try:
        return np.linalg.solve(a, b.astype(np.float64))
    except np.linalg.LinAlgError:
        return _substitute(a, b)


def _substitute(a: Array, b: Array) -> Array:
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    x = np.array(np.broadcast_to(b, shape), np.float64)
    for row in reversed(range(a.shape[-1])):
        x[..., row, :] -= (a[..., row, None, row + 1 :] @ x[..., row + 1 :, :])[..., 0, :]
        x[..., row, :] /= a[..., row, row, None]
    return x


# ---- L D L^T of symmetric matrices, after Bunch and Kaufman


def ldl_factor(a: Array) -> tuple[Array, Array, Array]:
    """(L below and D on the diagonal, pivots, info); negative pivots mark blocks of two."""
    n = a.shape[-1]
    factors = np.tril(a).astype(np.float64)
    pivots = np.zeros(a.shape[:-1], np.int32)
    info = np.zeros(a.shape[:-2], np.int32)
    for index in np.ndindex(a.shape[:-2]):
        matrix, own = factors[index], pivots[index]
        k = 0
        while k < n:
            other, width = _choose_pivot(matrix, k)
            if other is None:
                info[index] = info[index] or k + 1
                own[k] = k + 1
                k += 1
                continue
            _exchange(matrix, k, k + width - 1, other)
            _reduce(matrix, k, width)
            own[k : k + width] = other + 1 if width == 1 else -(other + 1)
            k += width
    return factors, pivots, info


# Balances the growth of one step with a block of two against two steps with single pivots.
_BUNCH_KAUFMAN = (1 + math.sqrt(17)) / 8


def _choose_pivot(a: Array, k: int) -> tuple[int | None, int]:
    """(row to exchange with, size of the block); no row where the whole column is zero."""
    own = abs(a[k, k])
    below = np.abs(a[k + 1 :, k])
    largest = below.max(initial=0.0)
    if max(own, largest) == 0 or math.isnan(own):
        return None, 1
    if own >= _BUNCH_KAUFMAN * largest:
        return k, 1
    row = k + 1 + int(below.argmax())
    in_row = max(np.abs(a[row, k:row]).max(), np.abs(a[row + 1 :, row]).max(initial=0.0))
    if own >= _BUNCH_KAUFMAN * largest * (largest / in_row):
        return k, 1
    return row, 1 if abs(a[row, row]) >= _BUNCH_KAUFMAN * in_row else 2


def _exchange(a: Array, k: int, own: int, other: int) -> None:
    """Rows and columns `own` and `other` of the part that is left, of which only the lower triangle is kept."""
    if own == other:
        return
    a[other + 1 :, [own, other]] = a[other + 1 :, [other, own]]
    between = a[own + 1 : other, own].copy()
    a[own + 1 : other, own] = a[other, own + 1 : other]
    a[other, own + 1 : other] = between
    a[own, own], a[other, other] = a[other, other], a[own, own]
    if own > k:
        a[own, k], a[other, k] = a[other, k], a[own, k]


def _reduce(a: Array, k: int, width: int) -> None:
    """Divide the block's columns by the block and take their part out of the rest."""
    end = k + width
    block = a[k:end, k:end] + np.tril(a[k:end, k:end], -1).T
    columns = a[end:, k:end]
    divided = np.linalg.solve(block, columns.T).T if width == 2 else columns / block
    a[end:, end:] -= np.tril(columns @ divided.T)
    a[end:, k:end] = divided


def ldl_solve(factors: Array, pivots: Array, b: Array) -> Array:
    """x with (L D L^T) x = b."""
    lead = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    factors = np.broadcast_to(factors, (*lead, *factors.shape[-2:])).astype(np.float64)
    pivots = np.broadcast_to(pivots, (*lead, pivots.shape[-1]))
    x = np.array(np.broadcast_to(b, (*lead, *b.shape[-2:])), np.float64)
    for index in np.ndindex(lead):
        _ldl_solve_one(factors[index], pivots[index], x[index])
    return x


def _ldl_solve_one(a: Array, pivots: Array, x: Array) -> None:
    blocks = []
    k = 0
    while k < len(a):
        width = 1 if pivots[k] > 0 else 2
        blocks.append((k, width, abs(pivots[k]) - 1))
        k += width
    for k, width, other in blocks:
        end = k + width
        x[[end - 1, other]] = x[[other, end - 1]]
        x[end:] -= a[end:, k:end] @ x[k:end]
        block = a[k:end, k:end]
        x[k:end] = np.linalg.solve(block + np.tril(block, -1).T, x[k:end]) if width == 2 else x[k:end] / block
    for k, width, other in reversed(blocks):
        end = k + width
        x[k:end] -= a[end:, k:end].T @ x[end:]
        x[[end - 1, other]] = x[[other, end - 1]]


# ---- the exponential

_PADE = tuple(
    float(math.factorial(26 - j) * math.factorial(13))
    / (math.factorial(26) * math.factorial(j) * math.factorial(13 - j))
    for j in range(14)
)
_PADE_RADIUS = 5.371920351148152  # up to this 1-norm the approximant is exact to double precision (Higham 2005)


def matrix_exp(a: Array) -> Array:
    """exp(a) by the [13/13] Pade approximant of a / 2^s, squared s times; s is each matrix's own."""
    a = a.astype(np.float64)
    size = np.abs(a).sum(axis=-2).max(axis=-1, initial=0.0)
    halvings = np.ceil(np.log2(np.maximum(np.where(np.isfinite(size), size, 0.0) / _PADE_RADIUS, 1.0)))
    result = _pade(a / np.exp2(halvings)[..., None, None])
    for step in range(int(halvings.max(initial=0.0))):
        result = np.where((halvings > step)[..., None, None], result @ result, result)
    return result


def _pade(a: Array) -> Array:
    """The approximant, even and odd powers apart: numerator and denominator differ only in the sign of the odd ones."""
    c = _PADE
    identity = np.eye(a.shape[-1])
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a @ (a6 @ (c[13] * a6 + c[11] * a4 + c[9] * a2) + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * identity)
    even = a6 @ (c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2 + c[0] * identity
    return np.linalg.solve(even - odd, even + odd)
