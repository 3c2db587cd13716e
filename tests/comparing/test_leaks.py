"""What stays alive from step to step."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn

from .steps import QUICK, batches, step_of, training

pytestmark = pytest.mark.usefixtures("fake_clock", "modules_are_seen")
total_loss = 0.0  # what a step below adds to


def test_a_leak_is_told_with_its_line_and_its_holder():
    _, _, step = training()
    history = []

    def leaking(x, y):
        loss = step(x, y)
        history.append(loss)
        return loss

    found = ex.compare(leaking, batches(), modes=("eager", "compile"), **QUICK)
    for f in found.columns:
        assert f.leak.tensors_per_step == 1
        assert f.leak.what == "float32 () made by cross_entropy"
        assert f.leak.line.startswith(f"{training.__code__.co_filename}:")
        assert f.leak.holder == "'history', a variable of leaking's closure (list)"
    assert "Leak in eager, compile: each step leaves 1 tensor and" in str(found)
    assert found.verdict.next.startswith("stop the leak in eager first")


def test_a_graph_that_grows_behind_one_tensor_is_a_leak():
    _, _, step = training()

    def summing(x, y):
        global total_loss
        loss = step(x, y)
        total_loss = total_loss + loss
        return loss

    for f in ex.compare(summing, batches(), modes=("eager", "compile"), **QUICK).columns:
        assert f.leak.tensors_per_step < 1
        assert f.leak.nodes_per_step >= 1
        assert f.leak.what == "nodes of add"
        assert str(f.leak).startswith("each step leaves 2 graph nodes behind")
        assert f.leak.line.startswith(f"{__file__}:")
        assert f.leak.holder.endswith("test_leaks.total_loss")


def test_a_step_that_keeps_its_last_loss_only_is_no_leak():
    _, _, step = training()
    kept = {}

    def keeping(x, y):
        kept["last"] = step(x, y)
        return kept["last"]

    found = ex.compare(keeping, batches(), modes=("eager", "compile"), **QUICK)
    assert [f.leak for f in found.columns] == [None, None]


def test_memory_that_outlives_its_tensors_is_a_leak():
    if ex.backends.stats()["backend"] == "numpy":
        pytest.skip("NumPy does not count")
    model = nn.Linear(4, 2)
    plain = step_of(model)
    kept = []

    def keeping(x, y):
        kept.append((x * 2).numpy())
        return plain(x, y)

    found = ex.compare(keeping, batches(), modes=("eager", "compile"), **QUICK)
    for f in found.columns:
        assert f.leak.tensors_per_step == 0
        assert f.leak.bytes_per_step >= 6 * 4 * 4
        assert f.leak.holder == "kept"
        assert "NumPy arrays" in f.leak.what
    same = ex.compare(plain, batches(), modes=("eager", "compile"), **QUICK)
    assert [f.leak for f in same.columns] == [None, None]
