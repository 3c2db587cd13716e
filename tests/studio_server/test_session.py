"""The session: what a page is greeted with, what it may ask for, and how pauses end."""

from __future__ import annotations

import json
import threading
import types

import pytest

import extempo as ex
from extempo import nn
from extempo.studio_server import session as sessions
from extempo.studio_server.commands import PageCommand, RefusedCommand, parse_command
from extempo.studio_server.session import Session
from extempo.studio_server.watching import TrainingWatch


@pytest.fixture
def training():
    """A session with a loop and a page."""
    session = Session()
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    optimizer = ex.optim.SGD(model.parameters(), lr=0.1)
    watch = TrainingWatch(session, model)
    session.begin_run(watch, "first")
    box = session.outboxes.add()

    def step():
        model(ex.ones(4, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    session.every = 1
    step()
    step()
    yield types.SimpleNamespace(session=session, model=model, optimizer=optimizer, box=box, step=step, watch=watch)
    watch.end()


def ask(training, **command):
    training.session.ask(parse_command(json.dumps(command)), training.box)


def told(training, kind):
    return [m for m in map(json.loads, training.box.take()) if m["type"] == kind]


def test_a_page_is_greeted_with_all_there_is(training):
    kinds = [json.loads(text)["type"] for text in training.session.greeting()]
    assert kinds == ["hello", "history", "capture"]
    hello = training.session.hello()
    assert hello["runs"][0]["name"] == "first"
    assert hello["structure"]["model"] == "Sequential"
    assert hello["can"]["predict"]
    assert hello["state"]["status"] == "running"
    assert {layer["kind"] for layer in hello["layers"]} >= {"Linear", "ReLU"}


def test_nodes_and_histories_are_told_at_once(training):
    number = training.session.captures.numbers()[-1]
    ask(training, type="node", id="n", capture=number, node=4)
    ask(training, type="history", id="h", run=1)
    found = [json.loads(text) for text in training.box.take()]
    assert next(m for m in found if m["type"] == "node")["op"]
    assert next(m for m in found if m["type"] == "history")["records"]
    with pytest.raises(RefusedCommand, match="no run 9"):
        ask(training, type="history", id="h", run=9)


def test_changes_wait_for_the_end_of_a_step(training):
    ask(training, type="lr", id="c1", lr=0.5)
    assert training.optimizer.param_groups[0]["lr"] == 0.1
    assert told(training, "state")[-1]["pending"] == [{"id": "c1", "text": "lr"}]
    training.step()
    assert training.optimizer.param_groups[0]["lr"] == 0.5
    messages = [json.loads(text) for text in training.box.take()]
    assert next(m for m in messages if m["type"] == "answer")["ok"]
    assert next(m for m in messages if m["type"] == "mark")["mark"]["kind"] == "lr"
    assert training.session.run.marks[-1]["step"] == 3


def test_a_change_that_fails_leaves_no_mark(training):
    ask(training, type="remove", id="c1", path="0")
    training.step()
    answer = next(m for m in map(json.loads, training.box.take()) if m["type"] == "answer")
    assert (answer["ok"], answer["id"]) == (False, "c1")
    assert training.session.run.marks == []
    assert len(training.model) == 2


def test_a_pause_waits_for_resume_and_does_what_is_asked_meanwhile(training):
    ask(training, type="pause", id="p")
    done = []

    def page():
        while not training.session.is_paused:
            pass
        ask(training, type="lr", id="c", lr=0.7)
        while training.optimizer.param_groups[0]["lr"] != 0.7:
            pass
        done.append(training.watch.n_steps)
        ask(training, type="resume", id="r")

    thread = threading.Thread(target=page, daemon=True)
    thread.start()
    training.step()
    thread.join(60)
    assert done == [3]
    assert not training.session.is_paused


def test_one_step_is_captured_and_pauses_again(training):
    session = training.session
    session.every = None
    ask(training, type="pause", id="p")
    ask(training, type="step", id="s")
    training.step()
    assert session.steps_once
    n_captures = len(session.captures.numbers())
    ask(training, type="resume", id="r")
    training.step()
    assert len(session.captures.numbers()) > n_captures
    assert training.watch.n_steps == 4


def test_a_pause_ends_when_the_last_page_has_gone(training, monkeypatch):
    monkeypatch.setattr(sessions, "GRACE", 0.2)
    ask(training, type="pause", id="p")
    training.session.outboxes.remove(training.box)
    training.step()  # would wait for ever
    assert not training.session.is_paused


def test_a_pause_ends_when_a_trainer_is_told_to_stop(training):
    training.watch.trainer = types.SimpleNamespace(stop="interrupted", figures_so_far=dict)
    ask(training, type="pause", id="p")
    training.step()
    assert not training.session.is_paused


def test_an_interrupt_ends_a_pause(training, monkeypatch):
    ask(training, type="pause", id="p")

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(training.session._arrived, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        training.step()


def test_requests_are_bounded(training):
    for _ in range(sessions.MOST_REQUESTS):
        ask(training, type="pipeline", id="x")
    with pytest.raises(RefusedCommand, match="wait already"):
        ask(training, type="pipeline", id="x")


def test_a_program_that_has_ended_changes_no_more_but_still_predicts(training):
    session = training.session
    session.note_program("ended", 0, "ended with exit status 0")
    with pytest.raises(RefusedCommand, match="any more"):
        ask(training, type="lr", id="c", lr=0.1)
    ask(training, type="predict", id="p", sequence="1 2")
    session.answer_waiting()
    assert told(training, "prediction")[0]["ok"]
    assert session.state()["status"] == "ended"


def test_runs_are_bounded_and_numbered(training):
    session = training.session
    for _ in range(12):
        watch = TrainingWatch(session, training.model)
        session.begin_run(watch, "")
        session.end_run(watch, session.run)
    assert len(session.runs) == sessions.MOST_RUNS
    assert session.run.number == 13
    assert session.csv(1) is None
    assert session.csv(13) is not None


def test_an_error_is_shown_with_its_graph(training):
    try:
        training.model(ex.ones(4, 7))
    except Exception as error:
        training.session.note_error(error)
    message = told(training, "error")[0]
    assert "ShapeError" in message["message"]
    assert any(e.get("k") == "error" for e in message["capture"]["graph"]["elements"])
    assert "test_session.py" in message["traceback"]
    assert json.loads(training.session.greeting()[-1])["type"] == "error"


def test_metrics_are_not_there_before_an_evaluation(training):
    ask(training, type="metrics", id="m")
    assert told(training, "metrics")[0]["available"] is False


def test_before_any_training_nothing_can_be_asked_of_it():
    session = Session()
    box = session.outboxes.add()
    for kind in ("lr", "pipeline"):
        with pytest.raises(RefusedCommand):
            session.ask(PageCommand(kind, "c", {"lr": 0.1, "group": None}), box)
    assert session.hello()["state"]["status"] == "waiting"
