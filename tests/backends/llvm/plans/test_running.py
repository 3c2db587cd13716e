"""The native code of a plan's callable: arguments that it was not built for, rows of larger arrays, and references."""

import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.plans.runner import PlanCode
from extempo.backends.selection import native
from extempo.core.types import TensorType, float64

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

REPLAY = -1


def copying(n=4, n_inputs=1):
    """A plan that copies its first input to its output."""
    code = PlanCode(n_inputs, (float,))
    out = code.output(TensorType((n,), float64))
    code.copy((out, 0), (0, 0), 8 * n)
    return code.finish(0, [])


def test_a_plan_makes_new_outputs_in_every_run():
    run, x = copying(), np.arange(4.0)
    first, second = run([x], [0.5]), run([x], [0.5])
    assert first[0].tolist() == second[0].tolist() == x.tolist()
    assert not np.shares_memory(first[0], second[0])


@pytest.mark.parametrize("args", [([], [0.5]), ([np.zeros(4)], []), ([np.zeros(4), np.zeros(4)], [0.5])])
def test_lists_of_another_length_are_answered_with_a_replay(args):
    assert copying()(*args) == REPLAY


def test_three_arguments_and_things_that_are_no_lists_are_not_taken():
    run = copying()
    assert run([np.zeros(4)], [0.5], None) == REPLAY
    with pytest.raises((SystemError, TypeError)):
        run(np.zeros(4), [0.5])


def test_what_is_no_array_or_no_number_is_answered_with_a_replay():
    run = copying()
    assert run([[0.0] * 4], [0.5]) == REPLAY
    assert run([None], [0.5]) == REPLAY
    assert run([np.zeros(4)], ["half"]) == REPLAY


def test_rows_of_larger_arrays_are_read_from_a_start_on_and_written_there():
    run = copying()
    source, target = np.arange(12.0).reshape(3, 4), np.zeros((3, 4))
    (out,) = run([source], [0.5], [target], 2, b"\1")
    assert out is target
    np.testing.assert_array_equal(target, [[0] * 4, [0] * 4, [8, 9, 10, 11]])
    (fresh,) = run([source], [0.5], [None], 1, b"\1")
    assert fresh.tolist() == [4, 5, 6, 7]
    (whole,) = run([source[0].copy()], [0.5], [None], 1, b"\0")
    assert whole.tolist() == [0, 1, 2, 3]


def test_a_run_keeps_no_references():
    run, x, numbers = copying(), np.zeros(4), [0.5]
    arrays = [x]
    before = [sys.getrefcount(o) for o in (x, arrays, numbers)]
    for _ in range(50):
        run(arrays, numbers)
        run(arrays, ["no number"])
    assert [sys.getrefcount(o) for o in (x, arrays, numbers)] == before


@pytest.mark.parametrize(("start", "expected"), [(0, [0.0, 1.0]), (2, [2.0, 3.0]), (3, 17), (-1, 17)])
def test_a_start_moves_a_base_within_its_limits_and_names_its_step_beyond_them(start, expected):
    code = PlanCode(1, (int,))
    out = code.output(TensorType((2,), float64))
    moved = code.derived(0, 0, ((0, 8, 2),), step=17)
    code.copy((out, 0), (moved, 0), 16)
    answer = code.finish(0, [])([np.arange(4.0)], [start])
    assert (answer if isinstance(answer, int) else answer[0].tolist()) == expected
