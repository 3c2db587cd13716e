"""Branches on values: variables of both sides merged, and refused where they cannot be."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import ExportError


def test_what_both_sides_give_alike_is_no_part_of_the_branch():
    def fn(x):
        kind, y = "none", x
        if x.sum() > 0:
            kind, y, n = "some", x * 2, 1
        else:
            kind, y, n = "some", x, 1
        return y * n if kind == "some" else None

    program = ex.program(fn, ex.ones(2))
    (branch,) = [n for n in program.graph if n.op.name == "cond"]
    assert len(branch.type) == 1
    assert program(-ex.ones(2)).tolist() == [-1, -1]


def test_a_number_takes_the_dtype_of_the_other_side():
    program = ex.program(lambda x: x.sum() if x.sum() > 0 else 0, ex.ones(2))
    assert program(-ex.ones(2)).dtype is ex.float32


def test_a_tensor_of_the_model_that_one_side_writes_is_given_back_by_both():
    class Counts(ex.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", ex.tensor(0))

        def forward(self, x):
            if x.sum() > 0:
                self.n += 1
                if x.sum() > 5:
                    self.n += 10
            return x * self.n

    program = ex.program(Counts().eval(), ex.ones(2))
    assert [int(program(ex.ones(2) * k)[1]["n"]) for k in (-1, 1, 9)] == [0, 1, 11]


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: (x, x) if x.sum() > 0 else x, "has another structure"),
        (lambda x: x if x.sum() > 0 else x.sum(), r"f32\[2\] in one branch and f32\[\] in the other"),
        (lambda x: x if x.sum() > 0 else "none", "decided by the example"),
    ],
)
def test_sides_that_give_different_things_are_refused(fn, message):
    with pytest.raises(ExportError, match=message):
        ex.program(fn, ex.ones(2))
