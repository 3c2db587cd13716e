"""The runner of programs: native ops in order, values dropped after their last use, sizes bound once each."""

from __future__ import annotations

import extempo as ex
from extempo.batching.open_run import OpenRun
from extempo.exporting.calls import Dim
from extempo.exporting.runner import MAX_BOUND, GraphRunner


def test_a_graph_is_bound_once_for_each_of_the_last_sizes():
    program = ex.program(lambda x: x.reshape(x.shape[0] * 2), ex.ones(3, 2), dynamic={"x": {0: "n"}})
    runner = program._runner
    for n in range(2 * MAX_BOUND):
        assert program(ex.ones(n, 2)).shape == (2 * n,)
    assert 0 < len(runner._bound) <= MAX_BOUND


def test_values_are_dropped_after_their_last_use():
    program = ex.program(lambda x: ((x + 1) * 2).exp(), ex.ones(3))
    runner = GraphRunner(program.graph)
    assert [len(step.drops) for step in runner._steps] == [1, 1, 1]


def test_watchers_see_every_node_also_inside_loops():
    program = ex.program(lambda x: ex.map(lambda r: r.sum(), x), ex.ones(3, 2))
    seen = []
    program._run([ex.ones(3, 2)], program.weights, lambda node, results: seen.append(node.op.name))
    assert seen == ["sum"] * 3 + ["map"]


def test_gradients_flow_where_they_are_asked_for():
    program = ex.program(
        lambda x: ex.scan(lambda c, r: (c * r, c), ex.ones(2), x)[0].sum(), ex.rand(3, 2), dynamic={"x": {0: "n"}}
    )
    x = ex.rand(4, 2, requires_grad=True)
    (ours,) = ex.autograd.grad(program._run([x], program.weights), x)
    (theirs,) = ex.autograd.grad(x.prod(0).sum(), x)
    assert ex.allclose(ours, theirs)


def test_programs_with_loops_run_under_vmap():
    def fn(x):
        total = x.abs().sum()
        while total < 10:
            total = total * 2 + 1
        return total if x[0] > 0 else -total

    program = ex.program(fn, ex.ones(3))
    xs = ex.randn(5, 3)
    assert ex.allclose(ex.vmap(program)(xs), ex.stack([fn(x) for x in xs]))


def test_what_depends_on_sizes_alone_is_computed_once():
    program = ex.program(
        lambda x: x.masked_fill(ex.tril(ex.ones(x.shape[0], x.shape[0])) == 0, 0.0),
        ex.ones(3, 3),
        dynamic={"x": {0: "n", 1: "n"}},
    )
    for _ in range(3):
        assert program(ex.ones(4, 4)).tolist() == ex.tril(ex.ones(4, 4)).tolist()
    bound = program._runner._bound[(4,)]
    assert bound.folded
    assert [step.op.name for step in bound.left] == ["where"]


def test_results_are_not_what_is_kept_for_sizes():
    def fn(x):
        numbers = ex.arange(x.shape[0])
        return numbers, numbers[1:], x + numbers

    program = ex.program(fn, ex.ones(3), dynamic={"x": {0: "n"}})
    for _ in range(4):
        numbers, view, total = program(ex.ones(4))
        assert (numbers.tolist(), view.tolist(), total.tolist()) == ([0, 1, 2, 3], [1, 2, 3], [1.0, 2.0, 3.0, 4.0])
        for result in (numbers, view, total):
            result.add_(1)


def test_constants_that_are_replaced_are_read_again():
    program = ex.program(
        lambda x: x + ex.tensor([1.0, 2.0]).expand(x.shape[0], 2).exp(), ex.ones(3, 2), dynamic={"x": {0: "n"}}
    )
    (name,) = program.weights
    for _ in range(3):
        before = program(ex.zeros(2, 2))
    program.weights[name] = ex.tensor([0.0, 0.0])
    for _ in range(3):
        assert program(ex.zeros(2, 2)).tolist() == [[1.0, 1.0]] * 2 != before.tolist()


def test_the_body_of_a_loop_is_one_call_of_a_batch():
    def decode(x):
        n = ex.tensor(0)
        while x.sum() < 10:
            x = x * 2 + 1
            n = n + 1
        return x, n

    program = ex.program(decode, ex.ones(3))
    samples = [ex.ones(3), ex.ones(3) * 5, ex.zeros(3), ex.ones(3) / 4]
    with OpenRun(program) as run:
        futures = [run.submit(x) for x in samples]
    for x, future in zip(samples, futures, strict=True):
        for mine, expected in zip(future.result(), decode(x), strict=True):
            assert ex.equal(mine, expected)
    longest = max(int(decode(x)[1]) for x in samples)
    assert run.stats()["nodes"] <= 2 * (longest + 1) * len(samples)  # a body and a condition each time, not their ops


def test_a_body_whose_sizes_are_symbols_runs_as_its_ops():
    def powers(x):
        total = x
        while total.sum() < 20:
            total = total + x * x
        return total

    program = ex.program(powers, ex.ones(3) * 2, dynamic={"x": {0: Dim("n", min=1)}})
    samples = [ex.ones(n) * 2 for n in (1, 5, 2, 3)]
    with OpenRun(program) as run:
        futures = [run.submit(x) for x in samples]
    for x, future in zip(samples, futures, strict=True):
        assert ex.equal(future.result(), powers(x))
