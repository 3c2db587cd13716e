"""Events by name, as PyTorch's programs ask for them."""

from __future__ import annotations

from extempo.profiling.call_tree import call_trees
from extempo.profiling.events import events_of

from .trees import KERNEL, MODULE, OP, made


def test_a_call_inside_one_of_the_same_name_counts_its_time_once():
    (tree,) = call_trees(made([(10, 50, MODULE), (20, 40, OP), (25, 35, KERNEL)]), [])
    events = {event.key: event for event in events_of([tree])}
    assert events["add"].count == 2
    assert events["add"].cpu_time_total == 0.02
    assert events["add"].self_cpu_time_total == 0.02
    assert events["add"].cpu_time == 0.01


def test_the_table_is_sorted_and_short():
    (tree,) = call_trees(made([(10, 20, MODULE), (30, 90, OP)]), [])
    events = events_of([tree])
    lines = events.table(sort_by="cpu_time_total", row_limit=1).splitlines()
    assert lines[1].startswith("add")
    assert len(lines) == 3
    assert events.total_average().count == 2
    assert len(events.table().splitlines()) == 4
