"""Files of answers."""

from __future__ import annotations

import pytest

from extempo import learn
from extempo.learn.answers import AnswersError, for_lesson, read_answers

BODY = "# T\npart: P\n\n" + "```python\nx = 1\n```\n\n? A?\n\n- 1 :: x == 1\n  Y.\n- 2 :: x == 2\n  N.\n\n" * 2
LESSONS = [learn.read(BODY, 1, "first"), learn.read(BODY, 2, "second")]


def test_answers_are_given_by_number_or_name_or_for_all():
    given = read_answers("# a comment\n1: a B  # here\n\nsecond: b,a\n", LESSONS)
    assert [for_lesson(given, lesson) for lesson in LESSONS] == [[0, 1], [1, 0]]
    given = read_answers("*: b\n1: a a", LESSONS)
    assert [for_lesson(given, lesson) for lesson in LESSONS] == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3: a", "line 1: expected a lesson's number or name"),
        ("1 a b", "line 1: expected a lesson's number or name"),
        ("\n1: a 2", "line 2: answers are letters"),
        ("1: ab", "line 1: answers are letters"),
        ("1: a", r"lesson 1 \(first\) has 2 questions, the file 1 answers"),
        ("2: a a", r"lesson 1 \(first\) has 2 questions, the file 0 answers"),
        ("1: a c", "lesson 1, question 2: there is no answer c; the last is b"),
    ],
)
def test_a_mistake_is_named(text, message):
    with pytest.raises(AnswersError, match=message):
        for_lesson(read_answers(text, LESSONS), LESSONS[0])
