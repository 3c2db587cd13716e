"""The studio's demo: the model of `extempo demo`, and its twin in PyTorch where that is installed."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.cli import demo_task as task
from extempo.cli import studio_demo
from extempo.studio_server import api


def test_it_trains_and_learns_within_a_studio(capsys):
    pytest.importorskip("uvicorn", reason="the studio needs uvicorn")
    pytest.importorskip("websockets", reason="the studio needs websockets")
    api.close_studio()
    try:
        studio_demo.train(n_epochs=2)
        session, _ = api.process_studio()
        assert session.run.model == ""  # nobody looked
        assert session.run.n_steps == 2 * task.N_TRAIN // task.BATCH_SIZE
        losses = [epoch["figures"]["valid_loss"] for epoch in session.run.epochs]
        assert losses[1] < losses[0]
        assert session.classes == task.GROUPS
    finally:
        api.close_studio()


def test_the_twin_in_pytorch_computes_the_same_loss():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    step = studio_demo.torch_step()
    twin = next(cell.cell_contents for cell in step.__closure__ if isinstance(cell.cell_contents, torch.nn.Module))
    model = task.Classifier()
    model.load_state_dict({name: ex.tensor(value.tolist()) for name, value in twin.state_dict().items()})
    words, labels = [list(w) for w in task.FIRST_BATCH], [task.class_of(w) for w in task.FIRST_BATCH]
    ours = sum(
        float(ex.nn.functional.cross_entropy(model(w), ex.tensor(label)).item())
        for w, label in zip(words, labels, strict=True)
    ) / len(words)
    assert step((words,), labels).item() == pytest.approx(ours, rel=1e-4)


def test_without_pytorch_there_is_no_twin(monkeypatch):
    monkeypatch.setattr(studio_demo.importlib.util, "find_spec", lambda name: None)
    assert studio_demo.torch_step() is None
