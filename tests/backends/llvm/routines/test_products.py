"""matmul, linear and the gradients of linear's parameters, natively: any rank, any layout, any order of chunks."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import products
from extempo.backends.llvm.routines.gemm_few_rows import SWEEP_ROWS

from ..guarded import bind, call
from .matrices import check, check_matmul, draw


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((7,), (7,)),
        ((5, 7), (7,)),
        ((7,), (7, 9)),
        ((2, 5, 7), (7,)),
        ((7,), (3, 7, 9)),
        ((2, 3, 5, 7), (7, 9)),
        ((2, 3, 5, 7), (2, 3, 7, 9)),
        ((2, 1, 5, 7), (3, 7, 9)),
        ((5, 7), (4, 7, 9)),
        ((1, 5, 7), (4, 2, 7, 9)),
        ((6, 40, 70), (6, 70, 50)),
        ((20, 3, 17), (20, 17, 1)),
    ],
)
def test_vectors_and_stacks_broadcast_as_in_numpy(a, b):
    rng = np.random.default_rng(4)
    for turned in (False, True):
        x = draw(rng, a, transposed=turned and len(a) > 1)
        y = draw(rng, b, transposed=turned and len(b) > 1)
        check_matmul(x, y)


def test_stacks_are_shared_among_threads_product_by_product(monkeypatch):
    monkeypatch.setattr(products, "CHUNK_PRODUCTS", 1000)
    rng = np.random.default_rng(5)
    check_matmul(draw(rng, (13, 9, 20)), draw(rng, (13, 20, 33), transposed=True))


def test_empty_products_and_integers_are_left_to_numpy():
    assert bind("matmul", (np.ones((0, 3), "f"), np.ones((3, 2), "f")), {}) is None
    assert bind("matmul", (np.ones((3, 0), "f"), np.ones((0, 2), "f")), {}) is None
    assert bind("matmul", (np.ones((3, 2), "i8"), np.ones((2, 2), "i8")), {}) is None


# ---- linear


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("lead", [(), (1,), (SWEEP_ROWS,), (5,), (33,), (2, 9), (3, 1, 4)])
def test_linear_adds_its_bias_to_every_row(lead, with_bias):
    rng = np.random.default_rng(12)
    for n_in, n_out in ((1, 1), (7, 1), (1, 9), (20, 16), (33, 65), (64, 10)):
        x, weight = draw(rng, (*lead, n_in)), draw(rng, (n_out, n_in))
        bias = draw(rng, (n_out,)) if with_bias else None
        (got,) = call("linear", x, weight, bias)
        want = x.astype("d") @ weight.T.astype("d") + (0 if bias is None else bias)
        check(got, want, n_in)


def test_linear_reads_a_transposed_weight_and_input_in_place():
    rng = np.random.default_rng(13)
    for n_rows in (1, 4, 40, 300):
        x, weight, bias = (
            draw(rng, (n_rows, 30), transposed=True),
            draw(rng, (50, 30), transposed=True),
            draw(rng, (50,)),
        )
        check(call("linear", x, weight, bias)[0], x.astype("d") @ weight.T.astype("d") + bias, 30)


def test_linear_with_a_vector_as_weight_gives_one_number_per_row():
    rng = np.random.default_rng(14)
    x, weight, bias = draw(rng, (4, 6, 30)), draw(rng, (30,)), draw(rng, ())
    check(call("linear", x, weight, bias)[0], x.astype("d") @ weight.astype("d") + bias, 30)


def test_a_bias_that_is_not_one_number_per_column_is_left_to_numpy():
    x, weight = np.ones((3, 4), "f"), np.ones((2, 4), "f")
    assert bind("linear", (x, weight, np.ones((3, 2), "f")), {}) is None
    assert bind("linear", (x, weight, np.ones((1,), "f")), {}) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lead", [(), (1,), (7,), (8,), (100,), (3, 50)])
def test_linear_gradient_sums_over_all_rows(lead, dtype):
    rng = np.random.default_rng(15)
    for n_out, n_in in ((1, 1), (5, 1), (1, 9), (3, 40), (10, 64), (65, 33)):
        g, x = draw(rng, (*lead, n_out), dtype), draw(rng, (*lead, n_in), dtype)
        of_weight, of_bias = call("linear_gradient", g, x)
        rows, x_rows = g.reshape(-1, n_out).astype("d"), x.reshape(-1, n_in).astype("d")
        check(of_weight, rows.T @ x_rows, len(rows))
        check(of_bias, rows.sum(0), len(rows))


def test_sums_of_many_rows_lose_little():
    g = np.full((40_000, 3), 0.1, np.float32)
    (_, sums) = call("linear_gradient", g, np.ones((40_000, 1), np.float32))
    np.testing.assert_allclose(sums, 40_000 * float(np.float32(0.1)), rtol=2e-6)
