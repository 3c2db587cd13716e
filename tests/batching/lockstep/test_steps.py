"""The graph of a function as steps, and what they hold while they run."""

from __future__ import annotations

import weakref

import extempo as ex
from extempo.batching.lockstep.lanes import Lanes
from extempo.batching.lockstep.run import run_program
from extempo.batching.lockstep.values import RAGGED, SHARED, UNIFORM

from .loops_beside import check, ragged, weight


def _program(fn, *columns, parameters=()):
    batched = check(fn, *columns, parameters=parameters)
    ((program, _),) = batched._notes.programs
    return program


def test_each_step_knows_how_its_values_are_held():
    w, b = weight(3, 4), weight(4)
    program = _program(lambda x: (x @ (w * 2)).sum(0) + b, ragged(3), parameters=[w, b])
    forms = {step.op.name: (step.forms, step.form) for step in program.steps.steps}
    assert forms["mul"][1] == SHARED
    assert forms["matmul"] == ([RAGGED, SHARED], RAGGED)
    assert forms["sum"] == ([RAGGED], UNIFORM)
    assert forms["add"] == ([UNIFORM, SHARED], UNIFORM)


def test_steps_of_loops_are_among_all_steps():
    w = weight(3, 4)

    def fn(x):
        h = ex.zeros(4)
        for row in x:
            h = ex.tanh(row @ w + h)
        return h

    program = _program(fn, ragged(3), parameters=[w])
    assert {"matmul", "add", "tanh"} <= {step.op.name for step in program.steps.every()}
    assert "tanh" not in {step.op.name for step in program.steps.steps}
    assert [repr(step) for step in program.steps.every() if step.op.name == "tanh"] == [
        "tanh(uniform) -> uniform: elementwise"
    ]


def test_a_value_that_nobody_reads_any_more_is_let_go():
    samples = ragged(3, lengths=[5, 3, 2])
    program = _program(lambda x: (x * 2).exp().sin().sum(0), samples)
    seen = []
    for step in program.steps.steps:
        step.rule = _watched(step.rule, seen)
    run_program(program, [samples], Lanes(3, program.sizes.of([[x.shape for x in samples]])))
    assert len(seen) == 4


def _watched(rule, seen):
    def run(step, lanes, inputs):
        made = rule(step, lanes, inputs)
        assert sum(r() is not None for r in seen) <= 1  # what it reads
        seen.append(weakref.ref(made))
        return made

    return run
