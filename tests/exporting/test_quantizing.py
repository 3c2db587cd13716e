"""Quantised programs: smaller files that run after loading, and reports of what changed."""

from __future__ import annotations

import io

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError

r = ex.randn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.cell = nn.GRUCell(32, 32)
        self.out = nn.Linear(32, 10)
        self.register_buffer("calls", ex.zeros(16, 16))

    def forward(self, ids):
        h = ex.zeros(32)
        for i in ids:
            h = self.cell(self.embedding(i), h)
        self.calls += 1
        return self.out(h)


def file_of(program):
    file = io.BytesIO()
    program.save(file)
    return file


@pytest.fixture
def program():
    ex.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).eval()
    return ex.program(model, r(2, 64), dynamic={"input": {0: "n"}})


@pytest.mark.parametrize(
    ("kind", "dynamic", "share"), [("int8", False, 0.35), ("int8", True, 0.4), ("float16", False, 0.6)]
)
def test_a_quantised_program_is_smaller_runs_after_loading_and_is_near(program, kind, dynamic, share):
    small = program.quantize(kind, r(50, 64), dynamic=dynamic)
    file = file_of(small)
    assert len(file.getvalue()) < share * len(file_of(program).getvalue())
    file.seek(0)
    again = ex.load_program(file)
    x = r(7, 64)
    assert ex.equal(again(x), small(x))
    assert again.storage == small.storage
    assert 0 < float((small(x) - program(x)).abs().max()) < 0.05
    assert len(file_of(again).getvalue()) <= len(file.getvalue())


def test_the_report_has_bytes_changes_and_times_when_asked(program):
    report = program.quantize("int8", r(50, 64), (r(3, 64),), {"input": r(4, 64)}, dynamic=True).report
    assert (report.n_weights, report.n_stored, report.n_dynamic, report.n_calls) == (4, 2, 2, 3)
    assert report.bytes_after < 0.3 * report.bytes_before
    (change,) = report.changes
    assert 0 < change.relative < 0.03
    assert change.same_choice > 0.9
    assert "time" not in str(report)
    assert report.seconds is None
    report.measure(rounds=1)
    assert all(s > 0 for s in report.seconds)
    assert "int8: 2 of 4 weights, inputs of 2 linear layers rounded too" in str(report)
    assert "ms a call" in str(report)
    assert "rows have the same largest entry" in str(report)


def test_without_examples_an_input_is_drawn(program):
    assert program.quantize("float16").report.n_calls == 1


def test_layers_inside_loops_are_quantised_and_states_are_not():
    program = ex.program(Reader().eval(), ex.tensor([1, 2, 3]), dynamic={"ids": {0: "n"}})
    small = program.quantize("int8", ex.tensor([4, 5, 6, 7]), dynamic=True)
    assert "calls" not in small.storage
    assert {"embedding.weight", "cell.weight_ih", "cell.weight_hh", "out.weight"} <= set(small.storage)
    ids = ex.tensor([9, 8, 7])
    y, state = small(ids)
    assert ex.allclose(y, program(ids)[0], atol=0.05)
    assert float(state["calls"][0, 0]) == 1


def test_trained_weights_are_not_rounded_again(program):
    module = program.quantize("int8").module()
    with ex.no_grad():
        for p in module.parameters():
            p.add_(0.001)
    x = r(3, 64)
    file = io.BytesIO()
    module.save(file)
    file.seek(0)
    assert ex.allclose(ex.load_program(file)(x), module(x))


def test_the_program_itself_stays(program):
    x = r(3, 64)
    before = program(x)
    program.quantize("int8", dynamic=True)
    assert ex.equal(program(x), before)
    assert not program.storage


def test_other_kinds_are_refused(program):
    with pytest.raises(ArgumentError, match="kind must be one of 'int8', 'float16', got 'int4'"):
        program.quantize("int4")
    with pytest.raises(ArgumentError, match="dynamic=True rounds to int8"):
        program.quantize("float16", dynamic=True)
