"""What `stats()` and `explain()` say of a run."""

from __future__ import annotations

import extempo as ex
from extempo import nn

from .agreement import draw, rows


def lines_of(batched):
    return {line.name: line for line in batched.explain().lines}


def test_nothing_has_been_batched_before_the_first_call():
    batched = ex.batch(lambda x: x)
    assert batched.stats()["mean_batch"] == 0.0
    assert str(batched.explain()) == "0 samples, 0 calls in 0 batches (0.0 calls each), 0 waves, 0 values waited for"


def test_calls_that_ran_as_one_need_no_reason():
    layer = nn.Linear(3, 2)
    batched = ex.batch(layer)
    batched(rows(4, 3))
    (line,) = batched.explain().lines
    assert (line.name, line.calls, line.batches, line.mean_batch, line.why) == ("Linear", 4, 1, 4.0, "")
    assert batched.stats() == {
        "samples": 4, "nodes": 4, "launches": 1, "mean_batch": 4.0, "reads": 0, "waves": 1, "aside": 0,
    }  # fmt: skip


def test_levels_of_ops_are_advised_to_be_a_cell():
    w = draw(0, 3)

    def body(x):
        for _ in range(3):
            x = x * w
        return x

    batched = ex.batch(body)
    batched(rows(2, 3))
    (line,) = batched.explain().lines
    assert line.why == "each call needs results of others: 3 levels"
    assert "@ex.cell" in line.advice


def test_values_that_are_waited_for_are_blamed_with_their_line():
    def body(x):
        for _ in range(2):
            x = x * 2
            x.sum().item()
        return x

    batched = ex.batch(body)
    batched(rows(2, 3))
    line = lines_of(batched)["mul"]
    assert line.why.startswith("values were waited for 2 times; 4 of them at ")
    assert f"test_report.py:{body.__code__.co_firstlineno + 3}" in line.why


def test_kinds_of_other_types_are_named_and_draws_are_made_one_by_one():
    batched = ex.batch(lambda x: ex.bernoulli(x.sigmoid()))
    batched([ex.ones(2), ex.ones(2, dtype=ex.float64), ex.ones(2)])
    lines = lines_of(batched)
    assert lines["sigmoid"].why.startswith("2 kinds of calls, of different types: ")
    drawn = next(line for line in lines.values() if "random draws" in line.why)
    assert drawn.batches == drawn.calls == 3
    assert "    random draws belong to each sample" in str(batched.explain())


def test_cells_that_run_as_ordinary_functions_are_named_with_their_line_and_the_reason():
    @ex.cell
    def noisy(x):
        return ex.nn.functional.dropout(x, 0.5)

    batched = ex.batch(lambda x: noisy(noisy(x)))
    batched(rows(3, 4))
    (said,) = batched.explain().ordinary
    assert "test_report.py:" in said
    assert said.endswith("noisy ran as an ordinary function: it draws random numbers")
    assert str(batched.explain()).split("\n")[1] == said


def test_layers_that_are_no_cells_are_not_named():
    dropout = ex.nn.Dropout(0.5)
    batched = ex.batch(lambda x: dropout(x) * 2)
    batched(rows(3, 4))
    assert batched.explain().ordinary == []
