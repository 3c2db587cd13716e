"""Templates: what is made of a program at three numbers of rows runs at any other."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32
from extempo.scheduling.layout import row_major
from extempo.scheduling.lowering import lowered_op
from extempo.scheduling.program import PlanProgram
from extempo.scheduling.request import Unplannable
from extempo.scheduling.row_templates import RowTemplate, part_of

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

SIZES = (101, 103, 107)
OTHERS = (1, 2, 3, 6, 15, 16, 17, 64, 100, 1000)


class Making:
    """A program at n rows, written down op by op."""

    def __init__(self, n):
        self.n = n
        self.program = PlanProgram()
        self.inputs = []

    def input(self, *shape):
        value = self.program.input(-1 - len(self.inputs), TensorType(shape, float32), None)
        self.inputs.append(value)
        return value

    def op(self, name, *codes, **attrs):
        types = self.program.types
        kinds = tuple(types[c] if c < len(types) else float for c in codes)
        (value,) = self.program.apply(lowered_op(REGISTRY[name], kinds, attrs), codes, 0)
        return value

    def transposed(self, value):
        t, strides = self.program.types[value], self.program.strides(value)
        return self.program.view(value, TensorType(t.shape[::-1], t.dtype), strides[::-1])

    def reshaped(self, value, *shape):
        t = TensorType(shape, float32)
        return self.program.view(value, t, row_major(t))


def template_of(write):
    """The template of what `write` makes, and which inputs it reads."""
    parts, reads = [], []
    for n in SIZES:
        making = Making(n)
        outputs = write(making)
        part, outside = part_of(making.program, range(len(making.program.nodes)), outputs)
        parts.append(part)
        reads.append([making.inputs.index(value) for value in outside])
    return RowTemplate(parts, SIZES, ()), reads[0]


def check(write, shapes, expected, sizes=OTHERS):
    """`shapes`: of inputs at n; `expected`: the results, computed by NumPy."""
    template, reads = template_of(write)
    rng = np.random.default_rng(0)
    for n in sizes:
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes(n)]
        given = [array.copy() for array in arrays]
        results = template.at(n)([arrays[i] for i in reads], [])
        for got, want in zip(results, expected(*arrays), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        for array, before in zip(arrays, given, strict=True):
            np.testing.assert_array_equal(array, before)
    return template


def test_elementwise_ops_with_rows_and_without():
    def write(m):
        a, b = m.input(m.n, 5), m.input(5)
        return [m.op("tanh", m.op("mul", a, b)), m.op("add", b, b)]

    check(write, lambda n: [(n, 5), (5,)], lambda a, b: [np.tanh(a * b), b + b])


def test_products_and_sums():
    def write(m):
        a, w = m.input(m.n, 6), m.input(6, 4)
        y = m.op("matmul", a, w)
        return [m.op("exp", y), m.op("matmul", m.transposed(a), y), m.op("sum", y, dim=(0,), keepdim=False)]

    check(
        write,
        lambda n: [(n, 6), (6, 4)],
        lambda a, w: [np.exp(a @ w), a.T @ (a @ w), (a @ w).sum(0)],
        (*OTHERS, 6, 4, 101),
    )


def test_rows_that_are_several_and_lie_otherwise():
    def write(m):
        a = m.input(m.n, 3, 4)
        b = m.op("neg", m.reshaped(a, 3 * m.n, 4))
        return [m.op("sum", b, dim=(1,), keepdim=False), m.transposed(b)]

    def expected(a):
        b = -a.reshape(-1, 4)
        return [b.sum(1), b.T]

    check(write, lambda n: [(n, 3, 4)], expected)


def test_only_what_is_needed_is_read():
    def write(m):
        a, b = m.input(m.n, 3), m.input(m.n, 3)
        m.op("mul", b, b)
        return [m.op("neg", a)]

    template, reads = template_of(write)
    assert reads == [0]
    assert template.n_inputs == 1


def test_sizes_have_to_grow_evenly():
    def write(m):
        return [m.op("neg", m.input(m.n * m.n, 3))]

    with pytest.raises(Unplannable, match="evenly"):
        template_of(write)


def test_the_same_has_to_be_done_at_all_sizes():
    def other_op(m):
        return [m.op("neg" if m.n < 105 else "exp", m.input(m.n, 3))]

    def more_ops(m):
        a = m.op("neg", m.input(m.n, 3))
        return [m.op("neg", a) if m.n > 105 else a]

    def other_number(m):
        a = m.input(m.n, 3)
        t = m.program.types[a]
        (y,) = m.program.apply(lowered_op(REGISTRY["mul"], (t, float), {}), (a, m.program.constant(1.0 / m.n)), 0)
        return [y]

    for write in (other_op, more_ops, other_number):
        with pytest.raises(Unplannable):
            template_of(write)


def test_constants_are_as_they_were():
    def write(m):
        a = m.input(m.n, 3)
        lowered = lowered_op(REGISTRY["mul"], (m.program.types[a], float), {})
        return [m.program.apply(lowered, (a, m.program.constant(2.5)), 0)[0]]

    check(write, lambda n: [(n, 3)], lambda a: [a * 2.5])


def test_which_programs_ignore_rows_of_zeros():
    def product(m):
        a, b = m.input(m.n, 6), m.input(m.n, 4)
        return [m.op("exp", m.op("matmul", m.transposed(a), b))]

    def of_rows(m):
        return [m.op("sum", m.op("exp", m.input(m.n, 6)), dim=(0,), keepdim=False)]

    def rows(m):
        return [m.op("matmul", m.input(m.n, 6), m.input(6, 4))]

    assert template_of(product)[0].ignores_zeros
    assert not template_of(of_rows)[0].ignores_zeros
    assert not template_of(rows)[0].ignores_zeros
