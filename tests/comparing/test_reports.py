"""A comparison as text, HTML and JSON."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.comparing.reports import Comparison, read

from .columns import column
from .steps import QUICK, batches, training


@pytest.mark.usefixtures("fake_clock")
def test_the_report_fits_80_columns_and_opens_with_time_memory_and_flexibility():
    model, _, step = training()

    def metric():
        with ex.no_grad():
            return sum((model(x).argmax(1) == y).float().mean().item() for x, y in batches())

    found = ex.compare(step, batches((6, 3, 6, 5)), metric=metric, **QUICK)
    text = str(found)
    assert max(map(len, text.splitlines())) <= 80
    titles = [line.split("  ")[0] for line in text.splitlines()]
    assert titles[3:6] == ["Training time (s)", "Memory (MB)", "Flexibility"]
    for title in ("iteration, median", "graph building", "warm-up, 8 steps", "loss, same time", "metric, 8 steps"):
        assert title in titles
    assert found["eager"].metric_same_steps == found["compile"].metric_same_steps > 0
    html = found._repr_html_()
    assert "<table>" in html
    assert f"Verdict: {found.verdict.word}" in html


def made(*columns):
    about = {"name": "step", "steps": 4, "rounds": 7, "threads": 1}
    return Comparison(list(columns), about)


def test_a_column_is_found_by_its_name():
    found = made(column("compile", 1.0), column("static", 1.0))
    assert found["static"].mode == "static"
    with pytest.raises(KeyError, match="there are"):
        found["torch"]


def test_batches_that_are_refused_and_columns_that_cannot_run_are_noted():
    notes = made(column("compile", 1.0), column("static", 1.0, taken="1000", error="other sizes")).notes()
    assert "static takes 1 of 4 batches. The first that it refuses: other sizes" in notes
    alone = made(column("compile", 1.0), column("static", 1.0, taken="0000", error="reads a value"))
    assert "static cannot run this step: reads a value" in alone.notes()
    assert alone.as_dict()["columns"][1]["training_seconds"] is None


def test_what_is_read_back_must_be_a_comparison(tmp_path):
    found = made(column("compile", 1.0), column("static", 1.0))
    assert read(found) == found.as_dict()
    path = tmp_path / "other.json"
    path.write_text("[]")
    with pytest.raises(ValueError, match="holds no saved comparison"):
        read(path)
