"""Figures, and what follows from them by arithmetic."""

from __future__ import annotations

from extempo.comparing.figures import overhead, ratio

from .columns import column


def test_ratios_are_of_batches_that_both_take():
    a, b = column("compile", 2.0), column("static", 1.0, taken="1000")
    found = ratio(a, b)
    assert (found.middle, found.n_steps) == (2.0, 1)
    assert overhead(a, b) == 1.0
    assert ratio(a, column("static", [], taken="0000")) is None


def test_more_rounds_narrow_the_range():
    times = [1.0, 1.4, 1.1, 1.3, 1.2]
    few = ratio(column("compile", times), column("static", [1.0] * 5))
    many = ratio(column("compile", times * 6), column("static", [1.0] * 30))
    assert many.middle == few.middle
    assert many.high - many.low < few.high - few.low


def test_changes_count_where_structure_or_sizes_differ_from_the_batch_before():
    f = column("static", 1.0, taken="1101", structures=[0, 0, 1, 1], lengths=[0, 1, 1, 1])
    assert f.changes == [1, 2]
    assert f.changes_survived == 1
    assert f.seen(f.structures) == 2
