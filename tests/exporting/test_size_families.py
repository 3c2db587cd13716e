"""SizeFamily: programs at sizes that they never ran at get plans by arithmetic, with the bits of single ops."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn
from extempo.exporting.size_families import _StraightLines
from extempo.exporting.sizes import parse_size
from extempo.func.tree import leaves
from extempo.scheduling.request import can_plan

pytestmark = pytest.mark.skipif(not can_plan(), reason="there are no plans without native code")


def bits(tree):
    return [(t._type, np.ascontiguousarray(t.numpy()).tobytes()) for t in leaves(tree)]


def new_by_family(program, *args):
    """Run a program at sizes that are new; whether it had plans for them at once."""
    runner = program._runner
    known = set(runner._bound)
    made = program(*args)
    had_plans = [runner._bound[key].parts is not None for key in set(runner._bound) - known]
    with ex.eager():
        assert bits(made) == bits(program(*args))
    assert bits(made) == bits(program(*args)) == bits(program(*args))
    return had_plans == [True]


def tail(x):
    n = x.shape[0]
    return (x.T @ x).softmax(-1), x[1:] * n, x[n - 3 :].exp() + ex.arange(n)[:3].unsqueeze(1)


MODELS = {
    "mlp": (nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).eval(), "input"),
    "tail": (tail, "x"),
    "norm": (lambda x: F.layer_norm(x, (6,)) + x.mean(0) / x.shape[0], "x"),
    "sorted": (lambda x: x.exp().sort(0)[0].tanh() * 2, "x"),
}


@pytest.mark.parametrize("name", MODELS)
def test_new_sizes_get_plans_with_the_same_bits(name):
    model, argument = MODELS[name]
    program = ex.program(model, ex.randn(4, 6), dynamic={argument: {0: "n"}})
    order = np.random.default_rng(0).permutation(np.arange(33, 64))
    for n in (40, 40, *order[:2]):
        program(ex.randn(int(n), 6))
    found = [new_by_family(program, ex.randn(int(n), 6)) for n in order[2:14]]
    assert all(found[2:])
    for n in (0, 1, 2, 3, 8, 9, 64, 65, 127):
        if name != "tail" or n >= 3:
            new_by_family(program, ex.randn(n, 6))


def test_each_of_two_sizes_may_be_new():
    program = ex.program(
        lambda x: x.transpose(1, 2).softmax(-1) @ x, ex.randn(2, 5, 4), dynamic={"x": {0: "b", 1: "t"}}
    )
    for b, t in ((3, 20), (3, 20), (3, 21), (3, 22), (3, 23), (20, 9), (20, 9), (21, 9), (22, 9)):
        program(ex.randn(b, t, 4))
    assert new_by_family(program, ex.randn(3, 25, 4))
    assert new_by_family(program, ex.randn(24, 9, 4))
    new_by_family(program, ex.randn(5, 30, 4))


@pytest.mark.parametrize("fn", [lambda x: x[: x.shape[0] // 2].exp() + 1, lambda x: (x @ x.T).softmax(-1)])
def test_what_is_not_affine_has_no_family(fn):
    program = ex.program(fn, ex.randn(4, 6), dynamic={"x": {0: "n"}})
    for n in (20, 20, 21, 22, 23):
        assert not new_by_family(program, ex.randn(n, 6))


def test_ragged_rows_of_new_lengths_have_plans():
    program = ex.program(lambda x: x.tanh().softmax(1).sum(1), ex.ragged([[1.0, 2.0], [3.0]]))
    rng = np.random.default_rng(0)

    def rows(total):
        cut = int(rng.integers(1, total))
        return ex.ragged([ex.randn(cut), ex.randn(total - cut)])

    for total in (20, 20, 21, 22):
        program(rows(total))
    assert all(new_by_family(program, rows(total)) for total in (23, 25, 30, 31))


def test_inputs_that_do_not_lie_row_by_row_are_right_as_well():
    program = ex.program(MODELS["mlp"][0], ex.randn(4, 6), dynamic={"input": {0: "n"}})
    for n in (20, 20, 21, 22, 23):
        program(ex.randn(n, 6))
    for n in (24, 25):
        x = ex.randn(6, n).T
        with ex.eager():
            expected = program(x)
        assert all(bits(program(x)) == bits(expected) for _ in range(3))


def test_views_are_checked_at_sizes_that_are_new():
    program = ex.program(lambda x: x[3:].exp() + 1, ex.randn(5, 6), dynamic={"x": {0: "n"}}, check=False)
    for n in (20, 20, 21, 22, 23):
        program(ex.randn(n, 6))
    assert new_by_family(program, ex.randn(24, 6))
    assert program(ex.randn(2, 6)).shape == (0, 6)


def test_threads_meet_new_sizes_together():
    program = ex.program(MODELS["mlp"][0], ex.randn(4, 6), dynamic={"input": {0: "n"}})
    inputs = [ex.randn(n, 6) for n in range(17, 60)]
    with ex.eager():
        expected = [bits(program(x)) for x in inputs]
    wrong = []

    def run(seed):
        for i in np.random.default_rng(seed).permutation(len(inputs)):
            if bits(program(inputs[i])) != expected[i]:
                wrong.append(i)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    "text", ["n + 3", "max(0, n - 5)", "max(0, 7 - n)", "2 * n - max(0, 3 * n - 20)", "n * m", "max(0, 3 - 2 * n)"]
)
def test_expressions_are_lines_in_the_widest_interval_around_a_size(text):
    size = parse_size(text)
    for known in range(30):
        lines = _StraightLines({"n": known, "m": 4}, "n")
        a, b = lines.of(size)
        assert lines.low <= known <= lines.high
        for n in range(lines.low, min(lines.high, 60) + 1):
            assert size.evaluate({"n": n, "m": 4}) == a + b * n


@pytest.mark.parametrize("text", ["n * n", "n // 2", "n % 3", "m / 2 + n"])
def test_what_is_no_line_is_refused(text):
    with pytest.raises(ValueError, match=r"line|square|fraction"):
        _StraightLines({"n": 8, "m": 3}, "n").of(parse_size(text))
