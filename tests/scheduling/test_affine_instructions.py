"""Bindings: numbers of rows that need no planning have the instructions, and the bits, that planning gives them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.selection import native
from extempo.scheduling import row_templates
from extempo.scheduling.affine_instructions import LEAST_WIDTH, SMALLEST
from extempo.scheduling.request import Unplannable

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

from .test_row_templates import template_of


def same_bits(write, shapes, sizes):
    """How many of these numbers of rows had a binding; each gives what planning gives."""
    template, reads = template_of(write)
    rng = np.random.default_rng(0)
    n_bound = 0
    for n in sizes:
        n_bound += template._ranges.at(n) is not None
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes(n)]
        given = [arrays[i] for i in reads]
        found, planned = template.at(n)(given, []), template._emitted(n).code.finish()(given, [])
        for got, want in zip(found, planned, strict=True):
            assert got.shape == want.shape
            assert got.tobytes() == want.tobytes()
    return n_bound


def test_elementwise_rows_products_and_sums():
    def write(m):
        a, w, v = m.input(m.n, 24), m.input(24, 40), m.input(40)
        y = m.op("tanh", m.op("add", m.op("matmul", a, w), v))
        return [y, m.op("matmul", m.transposed(a), y), m.op("sum", m.op("exp", y), dim=(0,), keepdim=False)]

    sizes = [*range(33, 65), *range(65, 129, 3)]
    assert same_bits(write, lambda n: [(n, 24), (24, 40), (40,)], sizes) >= len(sizes) - 8


def test_products_of_the_same_sizes():
    def write(m):
        a, b, w = m.input(m.n, 24), m.input(m.n, 24), m.input(24, 24)
        return [m.op("mul", m.op("matmul", a, w), m.op("matmul", b, w))]

    assert same_bits(write, lambda n: [(n, 24), (n, 24), (24, 24)], range(17, 33)) >= 12


def test_a_product_that_runs_in_turn_with_what_reads_it():
    def write(m):
        return [m.op("tanh", m.op("matmul", m.input(m.n, 8), m.input(8, 600)))]

    assert same_bits(write, lambda n: [(n, 8), (8, 600)], range(129, 257, 9)) >= 10


def test_values_that_lie_in_the_arena_one_after_another():
    def write(m):
        a = m.input(m.n, 30)
        parts = [m.op("exp", m.transposed(a)), m.op("neg", a)]
        parts.append(m.op("matmul", parts[1], parts[0]))
        return [m.op("sum", m.op("sin", parts[2]), dim=(1,), keepdim=False), m.op("matmul", parts[0], parts[1])]

    same_bits(write, lambda n: [(n, 30)], range(9, 130, 3))


def test_ranges_that_have_no_binding_as_a_whole_are_cut():
    def write(m):  # 2^16 elements, from which on it runs in turn with its product, are in the middle of the range
        return [m.op("tanh", m.op("matmul", m.input(m.n, 8), m.input(8, 340)))]

    assert same_bits(write, lambda n: [(n, 8), (8, 340)], range(129, 257)) >= 60


def test_few_rows_are_planned():
    def write(m):
        return [m.op("neg", m.input(m.n, 3))]

    assert same_bits(write, lambda n: [(n, 3)], range(1, SMALLEST + 1)) == 0
    assert same_bits(write, lambda n: [(n, 3)], range(SMALLEST + 1, SMALLEST + LEAST_WIDTH)) > 0


def test_what_has_no_binding_is_planned(monkeypatch):
    def refuse(*given):
        raise Unplannable("never")

    def write(m):
        return [m.op("exp", m.input(m.n, 3))]

    monkeypatch.setattr(row_templates, "AffineBinding", refuse)
    sizes = [n for n in (9, 16, 12, 64, 33, 48) for _ in range(8)]
    assert same_bits(write, lambda n: [(n, 3)], sizes) == 0


def test_sums_that_run_in_turn_with_what_they_add_up():
    def write(m):
        y = m.op("tanh", m.input(m.n, 80))
        z = m.op("mul", y, m.input(m.n, 80))
        return [m.op("sum", y, dim=(0,), keepdim=False), m.op("sum", z, dim=(0,), keepdim=False)]

    sizes = range(129, 257, 5)
    assert same_bits(write, lambda n: [(n, 80), (n, 80)], sizes) >= len(sizes) - 4


def test_sums_of_rows_that_run_in_turn():
    def write(m):
        y = m.op("exp", m.input(m.n, 200))
        return [y, m.op("sum", y, dim=(1,), keepdim=False)]

    sizes = range(513, 1025, 37)
    assert same_bits(write, lambda n: [(n, 200)], sizes) >= len(sizes) - 4
