"""An earlier comparison beside a later one."""

from __future__ import annotations

import json

import pytest

import extempo as ex
from extempo.comparing.changes import Changes

from .steps import QUICK, batches, training


@pytest.mark.usefixtures("fake_clock")
def test_figures_are_saved_and_compared_with_later_ones(tmp_path, fake_clock):
    _, _, step = training()
    old = ex.compare(step, batches(), **QUICK)
    path = old.save(tmp_path / "old.json")
    assert json.loads(path.read_text())["columns"][0]["training_seconds"] == 8.0
    assert "Still good." in str(old.against(path))
    fake_clock.tick = 2.0
    changes = ex.compare(step, batches(), modes=("eager", "compile"), **QUICK).against(path)
    row = next(r for r in changes.rows() if r["figure"] == "training_seconds")
    assert (row["column"], row["old"], row["new"], row["ratio"]) == ("eager", 8.0, 16.0, 2.0)
    assert "+100%\n" in str(changes)  # every new round took longer than every old one
    assert "static is not there any more." in str(changes)
    assert max(map(len, str(changes).splitlines())) <= 80
    assert "<table>" in changes._repr_html_()
    assert json.loads(changes.to_json())["changes"]
    saved = json.loads(path.read_text())
    saved["columns"][0] |= {"parameters": 7, "round_seconds": [8.0, 20.0]}
    doubtful = str(ex.compare(step, batches(), modes=("eager", "compile"), **QUICK | {"rounds": 4}).against(saved))
    assert "+100%?" in doubtful
    assert "may be chance" in doubtful
    assert "Unfair: eager: parameters was 7, is 58." in doubtful
    assert "rounds" not in doubtful.replace("old and new rounds", "")
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(ValueError, match="no saved comparison"):
        old.against(other)


def saved(seconds, word="good", **others):
    column = {"name": "eager", "training_seconds": seconds, "round_seconds": [seconds] * 3, "peak_bytes": 100}
    return {"name": "step", "columns": [column | others], "verdict": {"word": word}}


def test_figures_that_hardly_moved_are_left_out_but_for_time_and_memory():
    made = Changes(saved(1.0, first_seconds=1.0, p90_seconds=1.0), saved(2.0, first_seconds=1.01, p90_seconds=3.0))
    assert [row[1] for row in made.table.rows] == ["training time", "iteration, p90", "peak memory"]
    assert [row[4] for row in made.table.rows] == ["+100%", "+200%", "+0%"]


def test_what_makes_two_comparisons_unfair_is_said():
    old, new = saved(1.0, parameters=10), saved(1.0, "bad", parameters=12) | {"name": "other"}
    new["columns"].append({"name": "static"})
    assert Changes(old, new).notes() == [
        "Unfair: name was step, is other.",
        "Unfair: eager: parameters was 10, is 12.",
        "static was not there before.",
        "The verdict was good, is bad.",
    ]
    assert Changes(old, old).notes() == ["Still good."]


def test_times_that_overlap_are_marked():
    old = saved(1.0, round_seconds=[0.8, 1.0, 1.4])
    new = saved(1.2, round_seconds=[1.1, 1.2, 1.3])
    made = Changes(old, new)
    assert made.table.rows[0][4] == "+20%?"
    assert "? the times of old and new rounds overlap: this may be chance." in made.notes()
