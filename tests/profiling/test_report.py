"""Rows and tables."""

from __future__ import annotations

import pytest

from extempo.profiling.call_tree import call_trees
from extempo.profiling.report import phases_text, rows_by, table_of
from extempo.profiling.shares import shares_of

from .trees import BACKWARD, KERNEL, NODE, OP, made


@pytest.fixture
def shares():
    (tree,) = call_trees(made([(20, 40, OP), (25, 35, KERNEL), (50, 90, BACKWARD), (60, 80, NODE)]), [])
    return shares_of(tree)


def test_rows_have_share_calls_and_what_they_are_made_of(shares):
    rows = rows_by("line", shares, 100, {})
    row = rows["trees.py:33"] if any(row.name.startswith("trees.py:33") for row in rows) else rows[0]
    assert row.share > 0.9
    assert dict(row.parts)["add"] == pytest.approx(0.2)
    assert row.backward == pytest.approx(40e-9)


def test_phases_stand_in_their_own_order_and_are_one_line(shares):
    rows = rows_by("phase", shares, 100, {})
    assert [row.name for row in rows] == ["Python", "dispatch and recording", "native run", "backward"]
    assert phases_text(rows).startswith("Python 40%, dispatch and recording 10%, native run 10%, backward 40%")


def test_the_rows_that_are_left_out_are_counted(shares):
    rows = rows_by("op", shares, 100, {})
    assert f"({len(rows) - 1} more)" in table_of(rows, 1).text()
    assert str(rows) == rows.table.text()
    assert "<table>" in rows._repr_html_()
