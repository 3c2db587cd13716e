"""Native matrix products against NumPy in float64, with guard zones around everything that is written."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex

from ..guarded import call
from .matrices import TRANSPOSED, check, check_matmul, draw

# ---- matmul


@pytest.mark.parametrize(("turn_a", "turn_b"), TRANSPOSED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_products_agree_with_numpy_however_the_operands_lie(dtype, turn_a, turn_b):
    rng = np.random.default_rng(1)
    sizes = {tuple(rng.integers(1, 41, size=3)) for _ in range(150)}
    sizes |= {(m, n, k) for m in (1, 2, 6, 7) for n in (1, 8, 16, 17) for k in (1, 8, 9)}
    for m, n, k in sorted(sizes):
        check_matmul(draw(rng, (m, k), dtype, turn_a), draw(rng, (k, n), dtype, turn_b))


def test_operands_with_gaps_or_reversed_give_the_same_product():
    rng = np.random.default_rng(6)
    a, b = ex.tensor(draw(rng, (40, 60))), ex.tensor(draw(rng, (60, 40)))
    for x, y in ((a[::2, ::3], b[1::3]), (a.flip(0), b[:, ::2]), (a[3:4, 1:], b[1:, 5:6]), (a.T[::2], a[:, 7:20])):
        check((x @ y).numpy(), x.numpy().astype("d") @ y.numpy().astype("d"), x.shape[1])


def test_nan_stays_in_its_row_and_column():
    rng = np.random.default_rng(7)
    for m, k, n in ((3, 9, 21), (6, 17, 35), (9, 9, 21), (30, 40, 300), (250, 9, 260)):
        for turned in (False, True):
            a, b = draw(rng, (m, k)), draw(rng, (k, n), transposed=turned)
            a[m // 2, k // 2] = np.nan
            b[k // 2, n - 1] = np.inf
            (got,) = call("matmul", a, b)
            bad = ~np.isfinite(got)
            expected = np.zeros((m, n), bool)
            expected[m // 2], expected[:, n - 1] = True, True
            np.testing.assert_array_equal(bad, expected)


def test_the_number_of_threads_changes_no_bit():
    rng = np.random.default_rng(16)
    a, b = ex.tensor(draw(rng, (400, 500))), ex.tensor(draw(rng, (500, 700)))
    stacks = ex.tensor(draw(rng, (12, 90, 100))), ex.tensor(draw(rng, (12, 100, 80)))
    before = ex.get_num_threads()
    try:
        results = []
        for n_threads in (1, 3):
            ex.set_num_threads(n_threads)
            results.append(
                [(a @ b).numpy(), (a[:2] @ b).numpy(), (a[:5] @ a.T).numpy(), (stacks[0] @ stacks[1]).numpy()]
            )
    finally:
        ex.set_num_threads(before)
    for one, three in zip(*results, strict=True):
        np.testing.assert_array_equal(one, three)
