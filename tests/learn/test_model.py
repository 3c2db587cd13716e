"""Lessons as plain data."""

from __future__ import annotations

import dataclasses
import json

from extempo import learn

ASKED = "? Well?\n\n- 3 :: c == 3\n  Yes.\n- 4 :: c == 4\n  No.\n"
TEXT = f"# T\npart: P\n\nHello.\n\n```python\na = 1\nb = 2\n```\n\n```python\nc = 3\n```\n\n{ASKED}"


def test_a_lesson_survives_json():
    lesson = learn.read(TEXT, 4, "small")
    again = json.loads(json.dumps(lesson.as_dict()))
    assert (again["number"], again["title"], again["part"], again["quiz"]) == (4, "T", "P", False)
    assert [step["kind"] for step in again["steps"]] == ["text", "code", "question"]
    assert again["steps"][2]["choices"][1] == {"text": "4", "holds": "c == 4", "why": "No."}


def test_lines_of_steps_are_those_of_the_program():
    lesson = learn.read(TEXT, 4, "small")
    lines = lesson.program.splitlines()
    for step in lesson.steps:
        if step.code:
            assert lines[step.line - 1] == step.code.splitlines()[0]


def test_the_digest_changes_with_whatever_is_in_the_lesson():
    lesson = learn.read(TEXT, 4, "small")
    assert lesson.digest == learn.read(TEXT, 5, "other").digest  # its place and name are not in it
    assert lesson.digest != learn.read(TEXT.replace("Yes.", "Sure."), 4, "small").digest
    assert lesson.digest != dataclasses.replace(lesson, title="U").digest


def test_quizzes_are_known_by_their_name():
    assert learn.read(TEXT, 1, "graph_quiz").is_quiz
    assert not learn.read(TEXT, 1, "graph").is_quiz
