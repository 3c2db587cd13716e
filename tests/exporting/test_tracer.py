"""The tracer of programs: nodes for ops, graphs inside nodes, constants that are computed once."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.core.graph import Graph


def ops_of(program):
    return [node.op.name for node in program.graph if node.op.name not in ("leaf", "pick")]


def test_ops_on_constants_run_once_and_for_all():
    table = ex.ones(3)
    assert ops_of(ex.program(lambda x: x + (table * 2).exp(), ex.ones(3))) == ["add"]
    scale = (table * 3).sum()
    assert ops_of(ex.program(lambda x: x * 2 if (scale * 2).item() > 1 else x, ex.ones(3))) == ["mul"]


def test_ops_on_weights_stay_in_the_graph():
    layer = ex.nn.Linear(2, 2).eval()
    assert ops_of(ex.program(lambda x: x + layer.weight.exp(), ex.ones(2))) == ["exp", "add"]


def test_control_flow_nodes_hold_graphs_with_their_arguments():
    weight = ex.nn.Parameter(ex.ones(3))

    def fn(x):
        y = x * 2
        return ex.cond(x.sum() > 0, lambda z: z + y * weight, lambda z: z - x, (x,))

    program = ex.program(fn, ex.ones(3))
    node = next(n for n in program.graph if n.op.name == "cond")
    yes, no = node.attrs["true_graph"], node.attrs["false_graph"]
    assert isinstance(yes, Graph)
    assert len(yes.inputs) == len(no.inputs) == len(node.inputs) - 1
    assert [n.op.name for n in yes if n.op.name != "leaf"] == ["mul", "add"]
    assert node.line.endswith(f"test_tracer.py:{fn.__code__.co_firstlineno + 2}")
    assert program(ex.ones(3)).tolist() == [3.0] * 3
    assert program(-ex.ones(3)).tolist() == [0.0] * 3


def test_loops_nest():
    def fn(x):
        def row(total, r):
            (n,) = ex.while_loop(lambda n: n.sum() < 9, lambda n: (n * 2 + 1,), (r,))
            return total + n, ex.map(lambda e: e * total.sum(), n)

        return ex.scan(row, ex.zeros(2), x)

    program = ex.program(fn, ex.rand(3, 2), dynamic={"x": {0: "n"}})
    for n in (0, 1, 4):
        x = ex.rand(n, 2)
        for ours, theirs in zip(program(x), fn(x), strict=True):
            assert ex.allclose(ours, theirs)


def test_loops_that_change_what_they_carry_are_refused():
    with pytest.raises(ex.errors.ShapeError, match=r"changed carried value 0 from f32\[3\] to f32\[6\]"):
        ex.program(lambda x: ex.while_loop(lambda y: y.sum() < 9, lambda y: (ex.cat([y, y]),), (x,))[0], ex.ones(3))


def test_views_see_what_is_written_through_others():
    def fn(x):
        a = x.clone()
        row, column = a[0], a[:, 0]
        row.zero_()
        column += 1
        a[1, 1] = 7
        return a, row, column, row + 0

    program = ex.program(fn, ex.ones(2, 3))
    for ours, theirs in zip(program(ex.ones(2, 3)), fn(ex.ones(2, 3)), strict=True):
        assert ex.equal(ours, theirs)


def test_draws_inside_programs_are_new_at_every_call():
    program = ex.program(lambda x: x + ex.rand(x.shape[0]), ex.ones(3), dynamic={"x": {0: "n"}})
    assert not ex.equal(program(ex.ones(5)), program(ex.ones(5)))
    ex.manual_seed(1)
    y = program(ex.ones(5))
    ex.manual_seed(1)
    assert ex.equal(y, ex.ones(5) + ex.rand(5))


def test_a_new_tensor_is_written_through_parts_of_symbolic_size():
    def fn(x):
        out = ex.zeros(6)
        out[: x.shape[0]] = x
        part = out[1 : x.shape[0]]
        part += 1
        return out, part * 2

    program = ex.program(fn, ex.ones(3), dynamic={"x": {0: "n"}})
    for n in (2, 3, 6):
        for ours, theirs in zip(program(ex.rand(n).ceil()), fn(ex.ones(n)), strict=True):
            assert ex.equal(ours, theirs)


def test_what_was_written_is_seen_through_detach():
    def fn(x, index):
        total = ex.zeros(4)
        other = total.detach()
        total.index_add_(0, index, x)
        return other * 1, total.detach() + 1

    given = ex.ones(3), ex.tensor([0, 1, 1])
    for made, expected in zip(ex.program(fn, given)(*given), fn(*given), strict=True):
        assert made.tolist() == expected.tolist()


def test_written_memory_that_is_read_through_part_of_it_is_refused():
    def fn(x):
        total = ex.zeros(4)
        part = total.detach()[1:]
        total.add_(x)
        return part.detach() * 1

    with pytest.raises(ex.errors.ExportError, match="shares part of it"):
        ex.program(fn, ex.ones(4))
