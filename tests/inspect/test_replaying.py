"""Replay: differences are found and named, files that are damaged or changed are refused, other machines are told."""

from __future__ import annotations

import contextlib
import io
import random

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import REGISTRY
from extempo.inspect import replaying
from extempo.inspect.replaying import allowed_ulps, difference


@pytest.fixture
def content():
    """The parts of a recording, which tests change."""
    file = io.BytesIO()
    x = ex.tensor([1.0, 2.0], requires_grad=True)
    with ex.record(file):
        (x.exp() * 2).sum().backward()
    file.seek(0)
    return ex.load(file)


def replayed(content, **options):
    file = io.BytesIO()
    ex.save(content, file)
    file.seek(0)
    return ex.inspect.replay(file, **options)


def test_the_first_op_that_differs_is_named(content):
    numbers = {node.op: node.name[1:] for node in replayed(content).nodes if node.phase == "forward"}
    content["values"][numbers["mul"]] = content["values"][numbers["mul"]] + 1
    found = replayed(content)
    assert found.first_difference.op == "mul"
    assert "mul forward (test_replaying.py:" in found.verdict()
    assert "is the first of" in str(found)


def test_another_environment_is_told_and_each_op_is_compared_on_recorded_inputs(content):
    content["environment"]["threads"] = "99"
    numbers = {node.op: node.name[1:] for node in replayed(content).nodes if node.phase == "forward"}
    near = content["values"][numbers["exp"]].numpy().copy()
    near[0] = np.nextafter(near[0], np.float32(9))
    content["values"][numbers["exp"]] = ex.from_numpy(near)
    found = replayed(content)
    assert any(text.startswith("threads was 99, is ") for text in found.changed)
    assert found.first_difference is None
    assert "within what its op may differ by" in found.verdict()


def test_features_are_compared_by_name():
    assert replaying._feature_changes("+avx,+fma", "+avx,+sve") == ["CPU features: no longer +fma; now also +sve"]
    assert replaying._feature_changes("+avx", "+avx") == []


def test_a_replay_stops_at_a_node(content):
    seen = []
    node = next(n for n in replayed(content).nodes if n.op == "exp")
    found = replayed(content, stop=node.name, stopped=lambda *told: seen.append(told))
    assert found.nodes[-1] == node
    ((told, inputs, results),) = seen
    assert told == node
    assert inputs[0].tolist() == [1.0, 2.0]
    assert ex.equal(results[0], inputs[0].exp())
    with pytest.raises(ex.errors.ArgumentError, match="no node %999 to stop at; there are %"):
        replayed(content, stop=999)


def test_a_file_that_was_cut_short_or_changed_is_refused(content):
    file = io.BytesIO()
    ex.save(content, file)
    whole = file.getvalue()
    rng = random.Random(0)
    for _ in range(60):
        if rng.random() < 0.5:
            damaged = whole[: rng.randrange(len(whole))]
        else:
            at = rng.randrange(len(whole))
            damaged = whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :]
        with pytest.raises(ex.errors.ExtempoError):
            ex.inspect.replay(io.BytesIO(damaged))


@pytest.mark.parametrize("part", ["program", "weights", "inputs", "values", "notes", "updates", "environment"])
@pytest.mark.parametrize("value", [None, 3, "text", [], {"x": 1}])
def test_parts_that_are_of_another_kind_are_refused_or_do_no_harm(content, part, value):
    content[part] = value
    with contextlib.suppress(ex.errors.ExtempoError):
        replayed(content)


def test_other_files_are_refused_by_name(tmp_path):
    path = tmp_path / "other.extempo"
    ex.save({"x": ex.ones(2)}, path)
    with pytest.raises(ex.serialization.FileFormatError, match=r"was not written by ex\.record"):
        ex.inspect.replay(path)
    ex.save({"format": "extempo recording", "version": 9}, path)
    with pytest.raises(ex.serialization.FileFormatError, match="has version 9"):
        ex.inspect.replay(path)


def test_differences_are_units_in_the_last_place():
    one = np.ones(2, np.float32)
    assert difference(one, one) == 0
    assert difference(np.nextafter(one, np.float32(2)), one) == 1
    assert difference(np.array([np.nan], np.float32), np.array([np.nan], np.float32)) == 0
    assert difference(np.array([np.inf], np.float32), np.array([1], np.float32)) == np.inf
    assert difference(np.array([0.0], np.float32), np.array([-0.0], np.float32)) == 0.5
    assert difference(np.array([1]), np.array([2])) == np.inf
    assert difference(np.ones(2), np.ones(3)) == np.inf


def test_ops_that_move_values_may_not_differ():
    assert allowed_ulps(REGISTRY["reshape"]) == 0
    assert allowed_ulps(REGISTRY["add"]) == 1
    assert allowed_ulps(REGISTRY["exp"]) == 4
    assert allowed_ulps(REGISTRY["matmul"]) == allowed_ulps(REGISTRY["sum_rows"]) == 64


def test_a_replay_is_json_too(content):
    found = replayed(content)
    assert found.as_dict()["nodes"][0]["differs"] is False
    assert '"verdict"' in found.to_json()
