"""SummaryWriter: scalars are written, the rest is left out and that is said."""

from __future__ import annotations

import warnings

import pytest

from extempo.compat.torch_namespace.tensorboard import SummaryWriter


def test_scalars_are_in_the_event_file(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard")
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 1)
        writer.add_scalars("acc", {"train": 0.25, "valid": 0.75}, 2)
    found = reader.EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in found.Scalars("loss")] == [(1, 0.5)]
    assert found.Scalars("acc/valid")[0].value == 0.75


def test_what_is_left_out_is_said_once(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        with pytest.warns(UserWarning, match=r"SummaryWriter\.add_histogram: Extempo writes scalars only"):
            writer.add_histogram("weights", [1.0], 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            writer.add_histogram("weights", [1.0], 1)
        with pytest.raises(AttributeError):
            writer.nonsense()
