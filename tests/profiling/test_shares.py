"""Parts of the time, each with a line, a module, an op, a kernel and a phase."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.profiling.call_tree import call_trees
from extempo.profiling.shares import shares_of

from .trees import BACKWARD, KERNEL, MODULE, NODE, OP, made


def test_shares_add_up_and_know_op_kernel_and_phase():
    (tree,) = call_trees(
        made([(10, 50, MODULE), (20, 40, OP), (25, 35, KERNEL), (60, 90, BACKWARD), (65, 85, NODE)]), []
    )
    shares = shares_of(tree)
    assert sum(share.nanoseconds for share in shares) == 100
    assert sum(share.nanoseconds for share in shares if share.kernel == "add") == 10
    assert sum(share.nanoseconds for share in shares if share.op == "add") == 20
    assert sum(share.nanoseconds for share in shares if share.op == "add backward") == 20
    assert {share.phase for share in shares} == {"Python", "dispatch and recording", "native run", "backward"}


@pytest.mark.skipif(ex.backends.stats()["backend"] == "numpy", reason="plans are native")
def test_a_fused_kernel_is_shared_among_its_lines(always_planned):
    x = ex.ones(1000)

    @ex.compile
    def run():
        a = ex.exp(x)
        b = ex.tanh(a)
        return (b * 2).sum()

    for _ in range(30):
        run().item()
    with ex.profile() as prof:
        for _ in range(30):
            run().item()
    parts = [share for share in shares_of(prof.trees[0]) if share.is_estimate]
    texts = {share.line.text for share in parts}
    assert {"a = ex.exp(x)", "b = ex.tanh(a)"} <= texts
    assert {share.op for share in parts} >= {"exp", "tanh"}
    assert all(share.is_native for share in parts)
