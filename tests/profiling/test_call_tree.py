"""From records to a tree, in which every moment is booked once."""

from __future__ import annotations

from extempo.profiling import sites
from extempo.profiling.call_tree import PYTHON, call_trees
from extempo.profiling.lines import Line

from .trees import BACKWARD, KERNEL, MODULE, OP, made


def booked(tree):
    return sum(node.own for node in tree.walk())


def by_kind(tree):
    return {(node.kind, node.name): node.own for node in tree.walk() if node.own}


def test_what_is_in_no_call_is_pythons():
    (tree,) = call_trees(made([(10, 50, MODULE), (20, 40, OP), (25, 35, KERNEL)]), [])
    assert (
        by_kind(tree) == {(sites.OP, "add"): 10, (sites.KERNEL, "add"): 10, (PYTHON, "Python"): 20}
        or booked(tree) == 100
    )
    assert booked(tree) == tree.total == 100
    (kernel,) = [node for node in tree.walk() if node.kind == sites.KERNEL]
    assert [node.kind for node in kernel.path] == [sites.MODULE, sites.OP, sites.KERNEL]
    assert kernel.native == 10


def test_calls_of_one_thing_from_one_place_are_one_node():
    (tree,) = call_trees(made([(10, 20, OP), (30, 40, OP), (50, 60, OP)]), [])
    (op,) = [node for node in tree.walk() if node.kind == sites.OP]
    assert (op.calls, op.total) == (3, 30)


def test_calls_that_do_not_nest_still_add_up():
    (tree,) = call_trees(made([(10, 50, MODULE), (30, 80, MODULE), (60, 70, OP)]), [])
    assert booked(tree) == 100


def test_all_in_backward_is_of_that_stage():
    (tree,) = call_trees(made([(10, 50, BACKWARD), (20, 40, OP)]), [])
    (op,) = [node for node in tree.walk() if node.kind == sites.OP]
    assert op.stage == "backward"


def test_samples_say_which_lines_of_python_took_the_time_between_records():
    slow = Line("slow.py", 3, "f")
    (tree,) = call_trees(made([(90, 95, OP)]), [(40, (slow,)), (60, (slow,))])
    (python,) = [node for node in tree.walk() if node.kind == PYTHON and node.line == slow]
    assert python.own == 90


def test_threads_have_trees_of_their_own():
    trees = call_trees(made([(10, 20, OP), (30, 60, OP)], threads=[0, 7]), [])
    assert [tree.name for tree in trees] == ["main", "thread 1"]
    assert trees[1].total == 30
