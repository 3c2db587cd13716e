"""The tab with the lessons has them, or says that they are not there."""

from __future__ import annotations

import sys
import types

from extempo.studio_server.lessons import lessons_message


def test_without_the_course_the_tab_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "extempo.learn", None)
    message = lessons_message()
    assert message["available"] is False
    assert "not there" in message["why"]


def test_a_course_without_lessons_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "extempo.learn", types.ModuleType("extempo.learn"))
    assert lessons_message()["available"] is False


def test_lessons_are_told_as_data(monkeypatch):
    course = types.ModuleType("extempo.learn")
    choices = [{"text": "three", "holds": "n == 3", "why": "it counts"}]
    told = {"title": "What a graph is", "steps": [{"kind": "question", "choices": choices}]}
    lesson = types.SimpleNamespace(as_dict=lambda: told)
    course.lessons = lambda: [lesson]
    monkeypatch.setitem(sys.modules, "extempo.learn", course)
    (found,) = lessons_message()["lessons"]
    assert found["title"] == "What a graph is"
    assert found["steps"][0]["choices"] == [{"text": "three"}]  # nothing that tells the answer
