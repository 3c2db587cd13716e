"""The runner of programs: native ops in order, values dropped after their last use, sizes bound once each."""

from __future__ import annotations

import extempo as ex
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
