"""A Program as an object: how it prints, how it is called, its leaves by name."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import DtypeError


def test_a_program_prints_its_inputs_and_outputs():
    program = ex.program(lambda x: {"y": x[:, 1:], "n": x.shape[0]}, ex.ones(3, 4), dynamic={"x": {0: "a", 1: "b"}})
    assert repr(program) == "program(x: f32[a, b]) -> (output.y: f32[a, max(0, b - 1)])"
    assert program(ex.ones(5, 1))["n"] == 5


def test_leaves_are_inputs_and_then_weights():
    layer = ex.nn.Linear(2, 3).eval()
    program = ex.program(layer, ex.ones(1, 2))
    assert list(program.leaf_names.values()) == ["input", "weight", "bias"]


def test_too_many_and_repeated_arguments_are_refused():
    program = ex.program(lambda x: x * 2, ex.ones(2))
    with pytest.raises(DtypeError, match=r"takes 1 argument \(x\), got 2"):
        program(ex.ones(2), ex.ones(2))
    with pytest.raises(DtypeError, match="'x' was given twice"):
        program(ex.ones(2), x=ex.ones(2))


def test_programs_record_no_gradients_and_run_compiled_and_batched():
    program = ex.program(lambda x: (x * 2).sum(), ex.ones(3), dynamic={"x": {0: "n"}})
    x = ex.ones(4, requires_grad=True)
    assert not program(x).requires_grad
    compiled = ex.compile(program)
    assert [compiled(ex.ones(n)).item() for n in (1, 2, 3)] == [2.0, 4.0, 6.0]
    assert [y.item() for y in ex.batch(program)([ex.ones(2), ex.ones(3)])] == [4.0, 6.0]


def test_a_program_is_part_of_another_one_at_open_sizes():
    inner = ex.program(lambda x: ex.cumsum(x * 2, 0), ex.ones(3), dynamic={"x": {0: "n"}})
    inner(ex.ones(3))
    outer = ex.program(lambda x: inner(x + 1).sum(), ex.ones(2), dynamic={"x": {0: "m"}})
    for n in (0, 1, 5, 5):
        x = ex.arange(n, dtype=ex.float32)
        assert ex.allclose(outer(x), ex.cumsum((x + 1) * 2, 0).sum())
