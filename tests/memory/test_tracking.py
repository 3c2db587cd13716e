"""Which op, module and line allocates memory, and the peak."""

from __future__ import annotations

import json

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError


def lines_of(table):
    return [row[0].rpartition(":")[2] for row in table.rows]


def test_the_peak_knows_what_was_alive_then():
    x = ex.ones(1000)
    with ex.memory.track() as m:
        a = x * 2
        b = a.exp()
        del a
        c = b + 1
        del b
        d = c.sum()
    assert m.peak.n_bytes == 8000  # two at a time
    assert m.peak.op in ("exp", "add")
    assert len(m.peak.alive) == 2
    assert [(x.op, x.n_bytes) for x in m.alive] == [("add", 4000), ("sum", 4)]
    assert d.item() > 0


def test_bytes_are_told_by_line_op_and_module():
    model = nn.Sequential(nn.Linear(10, 20), nn.Tanh())
    x = ex.ones(5, 10)
    with ex.memory.track() as m:
        out = model(x)
    assert {row[0]: row[1] for row in m.by("module").rows} == {"0": "400 B", "1": "400 B"}
    assert [row[0] for row in m.by("op", at="all").rows] == ["tanh", "linear"]
    assert lines_of(m.by("line")) == [str(test_bytes_are_told_by_line_op_and_module.__code__.co_firstlineno + 4)]
    assert out.shape == (5, 20)


def test_views_allocate_nothing():
    x = ex.ones(4, 5)
    with ex.memory.track() as m:
        y = x.T[1]
    assert y.shape == (4,)
    assert m.peak.n_bytes == 0


def test_compiled_functions_run_op_by_op_within_the_block_and_by_plans_after_it():
    f = ex.compile(lambda x: (x * 2).exp().sum())
    x = ex.ones(100)
    for _ in range(4):
        before = f(x).item()
    with ex.memory.track() as m:
        assert f(x).item() == before
    assert [a.op for a in m.allocations] == ["mul", "exp", "sum"]
    assert f(x).item() == before


def test_memory_of_gradients_is_told():
    w = ex.ones(1000, requires_grad=True)
    with ex.memory.track() as m:
        (w * w).sum().backward()
    assert m.total >= 4000
    assert w.grad is not None


def test_the_timeline_is_written_as_picture_page_and_numbers(tmp_path):
    with ex.memory.track() as m:
        for i in range(12):
            x = ex.ones(100 + i).exp()
    assert x.shape == (111,)
    assert m.timeline(tmp_path / "m.svg").read_text().startswith("<svg")
    html = m.timeline(tmp_path / "m.html").read_text()
    assert "prefers-color-scheme: dark" in html
    assert "<svg" in html
    told = json.loads(m.timeline(tmp_path / "m.json").read_text())
    assert told["peak_bytes"] == m.peak.n_bytes
    assert max(total for _, total in told["timeline"]) == m.peak.n_bytes
    with pytest.raises(ArgumentError, match=r"ends in \.svg"):
        m.timeline("m.bmp")


def test_a_block_in_which_nothing_happens_has_no_peak(tmp_path):
    with ex.memory.track() as m:
        pass
    assert m.peak.n_bytes == 0
    assert str(m).startswith("peak 0 B")
    assert "nothing was allocated" in m.timeline(tmp_path / "m.svg").read_text()


def test_an_error_in_the_block_ends_it():
    tracking = ex.memory.track()
    m = tracking.__enter__()
    ex.ones(3).exp()
    tracking.__exit__(KeyError, KeyError(), None)
    n = len(m.allocations)
    ex.ones(3).exp()
    assert len(m.allocations) == n


def test_words_that_it_does_not_know_are_named():
    with ex.memory.track() as m:
        pass
    with pytest.raises(ArgumentError, match="what must be one of line, op, module, dtype, got 'file'"):
        m.by("file")
    with pytest.raises(ArgumentError, match="at must be one of peak, end, all"):
        m.by("op", at="start")
