"""`ex.studio`: one line around a loop, or an option of a Trainer."""

from __future__ import annotations

import json
import os

import pytest

import extempo as ex
from extempo import metrics, nn
from extempo.errors import ArgumentError
from extempo.nn import functional as F
from extempo.studio_server import api
from extempo.train import Trainer

from .helpers import FakePage, Training


@pytest.fixture(autouse=True)
def _fresh(fresh_studio):
    """Each test has a studio of its own."""


def loop_of(model):
    optimizer = ex.optim.SGD(model.parameters(), lr=0.1)

    def step():
        loss = model(ex.ones(4, 2)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def test_the_address_is_printed_once(capsys):
    step = loop_of(nn.Linear(2, 1))
    for _ in range(2):
        with ex.studio() as watched:
            step()
    said = capsys.readouterr().err
    assert said.count("Studio: http://127.0.0.1:") == 1
    assert watched.address in said


def test_two_runs_stand_beside_each_other():
    step = loop_of(nn.Linear(2, 1))
    for name in ("first", "second"):
        with ex.studio(name=name, show=False):
            step()
    session, _ = api.process_studio()
    assert [(run.name, run.status, run.n_steps) for run in session.runs] == [
        ("first", "ended", 1),
        ("second", "ended", 1),
    ]


def test_a_studio_within_a_studio_takes_over_and_an_empty_run_is_dropped():
    step = loop_of(nn.Linear(2, 1))
    with ex.studio(name="outer", show=False), ex.studio(name="inner", show=False):
        step()
    session, _ = api.process_studio()
    assert [run.name for run in session.runs] == ["inner"]
    assert session.run.number == 1


def test_what_a_loop_tells_is_shown_with_a_remark():
    step = loop_of(nn.Linear(2, 1))
    with ex.studio(show=False, classes=["no", "yes"]) as watched:
        for k in range(3):
            step()
            watched.log(accuracy=0.5)
            watched.epoch(train_loss=1.0 / (k + 1), valid_loss=1.5 / (k + 1))
        watched.scores([0, 1, 1, 0], [0.1, 0.9, 0.4, 0.2])
    session, _ = api.process_studio()
    assert [e["epoch"] for e in session.run.epochs] == [1, 2, 3]
    assert "loss" in session.run.epochs[-1]["remark"].lower()
    assert session.metrics_message(0.3)["recall"] == 1.0
    assert session.metrics_message()["classes"] == ["no", "yes"]
    watched.log(late=1.0)  # after the block: nothing happens
    watched.epoch(late=1.0)


def test_an_error_in_the_block_is_shown_and_raised():
    model = nn.Linear(2, 1)
    with pytest.raises(ex.errors.ShapeError), ex.studio(model, show=False):
        model(ex.ones(2, 3))
    session, _ = api.process_studio()
    message = json.loads(session.error_text)
    assert "ShapeError" in message["message"]
    assert session.run.status == "ended"


def test_a_trainer_tells_its_epochs_and_scores():
    ex.manual_seed(0)
    x = ex.randn(64, 2)
    y = (x[:, 0] > 0).long()
    model = nn.Linear(2, 2)
    adam = ex.optim.Adam(model.parameters(), lr=0.05)
    trainer = Trainer(model, F.cross_entropy, adam, [metrics.Accuracy()], progress=False, studio=True)
    trainer.callbacks.append(Stopping())
    seen = {}

    def visit():
        while api._Process.server is None or not api._Process.within:
            pass
        with FakePage(api._Process.server.address) as page:
            seen["epoch"] = page.until("epoch")["epoch"]
            seen["metrics"] = page.until("metrics", lambda m: m["available"])
            page.send(type="metrics", id="m", refresh=True, threshold=0.9, positive=1)
            seen["moved"] = page.until("metrics", lambda m: m.get("threshold") == 0.9)
            seen["steps"] = page.until("steps", lambda m: m["records"][-1]["metrics"] is not None)
        Stopping.now = True

    training = Training(visit)
    training.loop(lambda: trainer.fit([(x, y)] * 4, [(x, y)], epochs=10**6))
    history = trainer.history
    assert seen["epoch"]["figures"]["valid_loss"] in history["valid_loss"]
    assert seen["epoch"]["remark"]
    assert seen["metrics"]["accuracy"] == pytest.approx(history["valid_accuracy"][seen["metrics"]["step"] // 4 - 1])
    assert seen["moved"]["recall"] <= 1.0
    assert trainer.on_validated is None
    assert [type(c).__name__ for c in trainer.callbacks] == ["Stopping"]


class Stopping(ex.train.Callback):
    """Ends a fit that would go on for ever."""

    now = False

    def on_step(self, trainer, loss):
        if Stopping.now:
            trainer.stop = "enough"


def test_a_trainer_without_it_starts_no_server():
    model = nn.Linear(2, 1)
    trainer = Trainer(model, F.mse_loss, ex.optim.SGD(model.parameters(), lr=0.1), progress=False)
    trainer.fit([(ex.ones(2, 2), ex.ones(2, 1))], epochs=1)
    assert api._Process.server is None


@pytest.mark.parametrize("options", [{"every": 0}, {"every": 1.5}, {"every": True}, {"port": -1}, {"port": 99999}])
def test_options_that_make_no_sense_are_refused_before_anything_starts(options):
    with pytest.raises(ArgumentError, match="studio"):
        ex.studio(**options)
    with pytest.raises(ArgumentError, match="module"):
        ex.studio(model=3)
    assert api._Process.server is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_no_studio():
    step = loop_of(nn.Linear(2, 1))
    with ex.studio(show=False):
        step()
        child = os.fork()
        if child == 0:
            try:
                step()
                os._exit(0 if api._Process.server is None else 1)
            except BaseException:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        step()
    assert api.process_studio()[0].run.n_steps == 2
