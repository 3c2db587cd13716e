"""Files of answers, for a course that is taken without a person: a line for each lesson, a letter for each question.

1: b a c      # lesson 1, by number or by name
leak: a b
*: a          # for whatever is not named: this answer to everything
"""

from __future__ import annotations

from .model import Lesson

LETTERS = "abcdefgh"
ANY = "*"


class AnswersError(ValueError):
    """A file of answers is not written as it should be, or lacks one; the message says which."""


def read_answers(text: str, lessons: list[Lesson]) -> dict[str, list[int]]:
    """Choices for the questions of each lesson, by the lesson's name."""
    given: dict[str, list[int]] = {}
    names = {str(lesson.number): lesson.name for lesson in lessons} | {lesson.name: lesson.name for lesson in lessons}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        key, colon, letters = line.partition(":")
        key = key.strip()
        if not colon or (key not in names and key != ANY):
            raise AnswersError(f"line {number}: expected a lesson's number or name and a colon, such as `1: b a`")
        choices = letters.replace(",", " ").lower().split()
        if not all(len(letter) == 1 and letter in LETTERS for letter in choices):
            raise AnswersError(f"line {number}: answers are letters with spaces between them, such as `1: b a`")
        given[names.get(key, ANY)] = [LETTERS.index(letter) for letter in choices]
    return given


def for_lesson(given: dict[str, list[int]], lesson: Lesson) -> list[int]:
    """The choices for one lesson; an error if there are too few or too many, or one that is not offered."""
    questions = lesson.questions
    choices = given.get(lesson.name)
    if choices is None:
        everything = given.get(ANY, [])
        choices = everything * len(questions) if len(everything) == 1 else everything
    if len(choices) != len(questions):
        raise AnswersError(
            f"lesson {lesson.number} ({lesson.name}) has {len(questions)} questions, the file {len(choices)} answers"
        )
    for number, (choice, question) in enumerate(zip(choices, questions, strict=True), 1):
        if choice >= len(question.choices):
            raise AnswersError(
                f"lesson {lesson.number}, question {number}: there is no answer {LETTERS[choice]};"
                f" the last is {LETTERS[len(question.choices) - 1]}"
            )
    return choices
