"""What traced loops go along: smaller and larger sizes, zips of unlike lengths, lists that loops appended to."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.core.context import switch
from extempo.core.types import TensorType, float32
from extempo.errors import ExportError
from extempo.exporting.loop_items import LoopItems, StackedList, SymbolicRange, larger, smaller, tree_of, zipped
from extempo.exporting.sizes import SizeLog
from extempo.exporting.tracer import ProgramTracer


def traced(*names):
    log = SizeLog()
    tracer = ProgramTracer(log, {})
    return tracer, [tracer.argument(TensorType((log.symbol(n, 5 + i), 2), float32)) for i, n in enumerate(names)]


@pytest.mark.parametrize(("a", "b"), [(2, 7), (7, 2), (3, 3)])
def test_the_smaller_and_the_larger_of_two_sizes_hold_for_all(a, b):
    log = SizeLog()
    n, m = log.symbol("n", 4), log.symbol("m", 5)
    sizes = {"n": a, "m": b}
    assert log.expression(smaller(n, m)).evaluate(sizes) == min(a, b)
    assert log.expression(larger(n, m)).evaluate(sizes) == max(a, b)
    assert not log.guards


def test_only_what_has_an_open_length_is_gone_along():
    tracer, (x,) = traced("n")
    with switch(interceptor=tracer, grad=False):
        assert tree_of(x) is x
        assert tree_of(x.T) is None
        assert tree_of([x, x]) is None
        assert tree_of(SymbolicRange(0, x.shape[0], 1)).shape == x.shape[:1]
        assert tree_of(SymbolicRange(0, x.sum(), 1)) is None
        assert SymbolicRange(0, x.sum(), 1).is_counted


def test_a_zip_goes_as_far_as_the_shortest():
    tracer, (x, y) = traced("n", "m")
    with switch(interceptor=tracer, grad=False):
        a, b = zipped([x, y], strict=False).tree
        assert str(a.shape[0]) == str(b.shape[0])
        assert tracer.log.expression(a.shape[0]).evaluate({"n": 9, "m": 4}) == 4
        same = zipped([x, (x, x)], strict=True).tree
        assert same[0] is x


def test_a_list_keeps_what_was_in_it_before_and_takes_more():
    rows = ex.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = StackedList([ex.zeros(2)], rows)
    found.append(ex.ones(2))
    assert found.length() == 4
    assert found.stacked().tolist() == [[0, 0], [1, 2], [3, 4], [1, 1]]
    assert found[1].tolist() == [1, 2]
    assert found[1:3].stacked().tolist() == [[1, 2], [3, 4]]
    assert found.reversed()[0].tolist() == [1, 1]
    assert found.joined(0).tolist() == [0, 0, 1, 2, 3, 4, 1, 1]


def test_a_list_of_tuples_is_a_tuple_of_tensors():
    found = StackedList([(ex.zeros(2), ex.tensor(0.0))], (ex.ones(3, 2), ex.ones(3)))
    assert [tuple(x.shape) for x in found.tree()] == [(4, 2), (4,)]
    with pytest.raises(ExportError, match="the items of this list are tuples"):
        found.stacked()


@pytest.mark.parametrize("items", [StackedList([], ex.ones(2)), LoopItems((ex.ones(2),))])
def test_going_through_them_in_another_way_is_an_error(items):
    with pytest.raises(ExportError, match="where a program cannot follow"):
        list(items)
