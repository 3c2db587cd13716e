"""Branches and loops as If and Loop: numbers of steps that differ, none among them, and loops inside loops."""

from __future__ import annotations

import io

import numpy as np
import pytest

import extempo as ex

from .agreement import Exported, agree_on_many, normal, onnxruntime


def test_a_branch_is_an_if():
    def choose(x):
        return ex.cond(x.sum() > 0, lambda x: (x * 2, x.sum()), lambda x: (-x, x.prod()), (x,))

    exported = agree_on_many(choose, ex.ones(3), lambda rng, n: (normal(rng, n),), {"x": {0: "n"}})
    assert "If" in exported.kinds()


def test_a_branch_may_hand_on_what_it_was_given():
    exported = Exported(ex.program(lambda x: ex.cond(x.sum() > 0, lambda: (x, x), lambda: (x, -x)), ex.ones(2)))
    exported.agree(ex.ones(2))
    exported.agree(-ex.ones(2))


def test_a_while_loop_may_have_no_steps():
    def grow(x):
        return ex.while_loop(lambda x, n: (x.sum() < 10) & (n < 9), lambda x, n: (x * 2, n + 1), (x, ex.tensor(0)))

    exported = agree_on_many(grow, ex.ones(3), lambda rng, n: (normal(rng, n) * 9,), {"x": {0: "n"}})
    steps = {int(exported.run(normal(np.random.default_rng(k), 4) * 9)[1]) for k in range(20)}
    assert 0 in steps
    assert len(steps) > 2


def test_a_scan_keeps_open_sizes_of_its_results_where_it_has_no_steps():
    def running(x):
        forwards = ex.scan(lambda total, row: (total + row, total * row), ex.zeros(x.shape[1]), x)
        backwards = ex.scan(lambda total, row: (total + row, total * row), ex.zeros(x.shape[1]), x, reverse=True)
        return *forwards, *backwards

    exported = Exported(ex.program(running, ex.ones(4, 5), dynamic={"x": {0: "n", 1: "m"}}))
    assert "Scan" not in exported.kinds()
    rng = np.random.default_rng(0)
    for n, m in ((0, 3), (3, 0), (0, 0), (1, 1), (4, 2)):
        exported.agree(normal(rng, n, m))


def test_a_loop_inside_a_loop_with_a_branch():
    def nested(x):
        rows = []
        for row in x:
            total = ex.tensor(0.0)
            for value in row:
                total = total * 2 if value > 0 else total + value
            rows.append(total)
        return ex.stack(rows)

    exported = Exported(ex.program(nested, ex.ones(3, 4), dynamic={"x": {0: "n", 1: "m"}}))
    rng = np.random.default_rng(0)
    for n, m in ((0, 2), (1, 0), (1, 1), (5, 3)):
        exported.agree(normal(rng, n, m))


def written(src):
    """Numbers of a vector set one by one, at places that a loop counts."""
    out, i = ex.full((6,), -1.0), ex.tensor(0)
    while i < 6 and i < src.shape[0]:
        out[i] = src[i] * 2
        i = i + 1
    return out


def rows_set_first(words):
    h = ex.zeros(2 * words.shape[0] + 1, 3)
    h[: words.shape[0]] = words
    return h


@pytest.mark.parametrize("fn", [written, rows_set_first])
def test_what_is_written_at_open_places_is_right_for_no_and_for_one(fn):
    example = ex.randn(4) if fn is written else ex.randn(4, 3)
    name = "src" if fn is written else "words"
    program = ex.program(fn, example, dynamic={name: {0: "n"}})
    assert not program.guards
    file = io.BytesIO()
    program.to_onnx(file)
    session = onnxruntime.InferenceSession(file.getvalue())
    for n in (0, 1, 2, 5, 9):
        x = ex.randn(n, *example.shape[1:])
        assert ex.equal(program(x), fn(x))
        np.testing.assert_allclose(session.run(None, {name: x.numpy()})[0], fn(x).numpy(), 1e-6)
