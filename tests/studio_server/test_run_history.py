"""The curves of a run are bounded, whatever the number of steps."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

from extempo.studio_server.run_history import MOST_RECORDS, RunHistory


def record(step, **more):
    return {"step": step, "loss": 1.0 / step, "lr": [0.1, 0.2], "phases": None, "captured": None, **more}


def test_few_steps_are_all_kept():
    run = RunHistory(1, "run 1", "Net")
    for step in range(1, 101):
        run.add(record(step))
    assert [r["step"] for r in run.records] == list(range(1, 101))


def test_of_ten_thousand_steps_some_are_kept_evenly_with_the_first_and_the_last():
    run = RunHistory(1, "run 1", "Net")
    for step in range(1, 10_001):
        run.add(record(step))
    steps = [r["step"] for r in run.records]
    assert len(steps) <= MOST_RECORDS + 1
    assert steps[0] == 1
    assert steps[-1] == 10_000
    assert {b - a for a, b in pairwise(steps[:-1])} == {run.every}


def test_a_step_that_was_looked_into_takes_the_place_of_its_neighbour():
    run = RunHistory(1, "run 1", "Net")
    for step in range(1, 5001):
        run.add(record(step, captured=7 if step == 4998 else None))
    assert any(r["captured"] == 7 for r in run.records)


def test_the_table_has_a_column_for_each_nested_figure():
    run = RunHistory(1, "run 1", "Net")
    run.add(record(1, phases={"Python": 0.1, "kernels": 0.2}))
    run.add(record(2))
    rows = list(csv.DictReader(io.StringIO(run.csv())))
    assert rows[0]["phases.kernels"] == "0.2"
    assert rows[1]["phases.kernels"] == ""
    assert (rows[0]["lr"], rows[0]["lr.1"]) == ("0.1", "0.2")


def test_a_run_without_steps_can_be_told():
    assert RunHistory(1, "run 1", "").message()["records"] == []
