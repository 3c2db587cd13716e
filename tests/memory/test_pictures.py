"""The timeline as a picture."""

from __future__ import annotations

from extempo.memory.pictures import timeline_picture


def test_lines_that_held_most_have_bands_and_the_others_share_one():
    allocations = [(f"train.py:{i}", 1000 + i) for i in range(9)]
    changes = [(i * 0.1, i, True) for i in range(9)] + [(1.0 + i * 0.1, i, False) for i in range(9)]
    text = timeline_picture(changes, allocations, "title").svg()
    assert "train.py:8, up to" in text
    assert "train.py:0, up to" not in text
    assert "all others, up to" in text


def test_long_runs_make_no_long_pictures():
    changes = [(i * 1e-6, 0, i % 2 == 0) for i in range(20_000)]
    assert len(timeline_picture(changes, [("a", 8)], "t").svg()) < 200_000
