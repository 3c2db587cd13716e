"""What the training thread does for pages: predictions, pipeline, metrics and comparisons."""

from __future__ import annotations

import json
import types

import pytest

import extempo as ex
from extempo import metrics, nn
from extempo.cli import demo_task as task
from extempo.nn import functional as F
from extempo.studio_server import obeying
from extempo.studio_server.commands import PageCommand, RefusedCommand
from extempo.studio_server.obeying import evaluate_scores, obey_command, pipeline_message
from extempo.studio_server.session import Session
from extempo.studio_server.watching import TrainingWatch
from extempo.train import Trainer


@pytest.fixture
def watched():
    session = Session()
    model = task.Classifier()
    watch = TrainingWatch(session, model)
    watch.samples = [(([1, 2, 3],), {}), (([4],), {})]
    session.begin_run(watch, "")
    yield types.SimpleNamespace(session=session, watch=watch, model=model, box=session.outboxes.add())
    watch.end()


def obey(watched, kind, **fields):
    text = obey_command(watched.session, watched.watch, PageCommand(kind, "x", fields), watched.box)
    return text, [json.loads(message) for message in watched.box.take()]


def test_a_prediction_has_its_graph_and_its_nodes_can_be_asked_for(watched):
    _, messages = obey(watched, "predict", sequence="3 1 4")
    (found,) = [m for m in messages if m["type"] == "prediction"]
    assert found["ok"]
    assert found["input"] == [3, 1, 4]
    assert found["capture"]["number"] == -1
    last = found["capture"]["order"][-1]
    assert watched.session.captures.node(-1, last)["value"]["n"] == 5
    assert watched.session.captures.newest is None  # it is no iteration


def test_a_sequence_that_cannot_be_read_is_answered_so(watched):
    _, messages = obey(watched, "predict", sequence="99")
    assert messages[-1]["ok"] is False
    assert "99" in messages[-1]["error"]


def test_the_pipeline_is_told_to_all(watched):
    other = watched.session.outboxes.add()
    obey(watched, "pipeline")
    assert any(json.loads(text)["type"] == "pipeline" for text in other.take())
    watched.watch.samples = []
    with pytest.raises(RefusedCommand, match="captured"):
        pipeline_message(watched.session, watched.watch)


def test_the_scores_of_a_trainer_are_those_of_its_validation(watched):
    ex.manual_seed(0)
    model = nn.Linear(2, 3)
    x, y = ex.randn(30, 2), ex.randint(3, (30,))
    sgd = ex.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, F.cross_entropy, sgd, [metrics.Accuracy()], progress=False)
    history = trainer.fit([(x, y)], [(x, y)], epochs=1)
    watched.watch.trainer = trainer
    before = ex.random.get_rng_state().tolist()
    evaluate_scores(watched.session, watched.watch)
    assert watched.session.metrics_message()["accuracy"] == pytest.approx(history["valid_accuracy"][-1])
    assert ex.random.get_rng_state().tolist() == before
    watched.watch.trainer = None


def test_a_loop_without_scores_says_how_to_tell_them(watched):
    with pytest.raises(RefusedCommand, match="scores"):
        evaluate_scores(watched.session, watched.watch)


def test_a_comparison_that_fails_is_told_and_training_goes_on(watched, monkeypatch):
    def broken(watch, make_torch_step):
        raise ValueError("no way")

    monkeypatch.setattr(obeying, "compared", broken)
    _, messages = obey(watched, "compare")
    found = [m for m in messages if m["type"] == "compare"]
    assert [m["status"] for m in found] == ["running", "failed"]
    assert "no way" in found[-1]["error"]
    assert not watched.session.is_measuring


def test_without_a_model_a_change_says_what_to_do():
    watch = types.SimpleNamespace(model=None, samples=[], n_steps=1, optimizer=None)
    with pytest.raises(RefusedCommand, match=r"ex\.studio\(model\)"):
        obey_command(Session(), watch, PageCommand("lr", "x", {"lr": 1.0, "group": None}), None)
