"""Steps of lessons run in a process of their own, by their numbers alone."""

from __future__ import annotations

import json
import threading
import types

import pytest

from extempo.studio_server import lesson_runs
from extempo.studio_server.commands import PageCommand, RefusedCommand
from extempo.studio_server.outboxes import Outbox


def command(lesson=1, step=0, choice=None):
    return PageCommand("learn", "l1", {"lesson": lesson, "step": step, "choice": choice})


def told(box):
    """What comes, within a minute."""
    pause = threading.Event()
    for _ in range(1200):
        found = box.take()
        if found:
            return json.loads(found[0])
        pause.wait(0.05)
    raise AssertionError("no answer came")


def test_a_step_s_outcome_is_told_and_its_arguments_are_numbers(monkeypatch):
    asked = []

    def run(arguments, **options):
        asked.append(arguments)
        return types.SimpleNamespace(returncode=0, stdout=b'{"outcome": {"output": []}, "verdict": null}', stderr=b"")

    monkeypatch.setattr(lesson_runs.subprocess, "run", run)
    box = Outbox()
    lesson_runs.run_lesson(command(3, 4, 1), box)
    assert told(box) == {
        "type": "learn", "id": "l1", "ok": True, "lesson": 3, "step": 4, "outcome": {"output": []}, "verdict": None
    }  # fmt: skip
    assert asked[0][1:] == ["-m", "extempo.studio_server.lesson_runs", "3", "4", "1"]


def test_what_fails_is_told_in_one_line(monkeypatch):
    ended = types.SimpleNamespace(returncode=1, stdout=b"", stderr=b"Traceback\nLessonError: there is no lesson 99\n")
    monkeypatch.setattr(lesson_runs.subprocess, "run", lambda *a, **o: ended)
    box = Outbox()
    lesson_runs.run_lesson(command(99), box)
    message = told(box)
    assert message["ok"] is False
    assert "no lesson 99" in message["error"]


def test_one_lesson_runs_at_a_time(monkeypatch):
    go_on = threading.Event()

    def run(*args, **options):
        go_on.wait(60)
        raise TimeoutError("too long")

    monkeypatch.setattr(lesson_runs.subprocess, "run", run)
    box = Outbox()
    lesson_runs.run_lesson(command(), box)
    with pytest.raises(RefusedCommand, match="already"):
        lesson_runs.run_lesson(command(), Outbox())
    go_on.set()
    assert "too long" in told(box)["error"]


def test_the_process_prints_json(monkeypatch, capsys):
    class Course(types.ModuleType):
        @staticmethod
        def lesson(number):
            return number

        class Session:
            def __init__(self, lesson):
                self.lesson = lesson

            def __enter__(self):
                return self

            def __exit__(self, *error):
                pass

            def run(self, step):
                return types.SimpleNamespace(as_dict=lambda: {"ran": [self.lesson, step]})

            def answer(self, step, choice):
                return types.SimpleNamespace(as_dict=lambda: {"chosen": choice})

    monkeypatch.setitem(lesson_runs.sys.modules, "extempo.learn", Course("extempo.learn"))
    lesson_runs.main(["2", "5", "None"])
    lesson_runs.main(["2", "5", "1"])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"outcome": {"ran": [2, 5]}, "verdict": None}
    assert second == {"outcome": None, "verdict": {"chosen": 1}}
