"""The lessons themselves: each runs here and now, and tells right and wrong answers as what they are."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from extempo import learn
from extempo.backends.selection import native

LESSONS = learn.lessons()
# By lesson, which answer is right to each question; `.` where a measurement decides, which may come out otherwise, or
# undecided, on a busy machine.
RIGHT = {
    "graph": "babc",
    "static": "acb",
    "forming": "acc",
    "buys": "abc",
    "costs": "...",
    "changing": "abcaa",
    "graph_quiz": "caacb",
    "freed": "acaa",
    "leak": "cab",
    "memory": "bab",
    "batching": "ca.",
    "attention": "abaa",
    "hood_quiz": "babab",
    "myths": "a.cb",
    "pitfalls": "cba",
    "when_not": "..a",
    "honestly": ".cab.",
    "fraud": "cac",
    "relatives": "bcaa",
    "judging_quiz": "bacab",
}
TOPICS = (
    "profile compare memory.holders memory.track breakpoint watch explain batch program checkpoint surgery Graph.of"
)
WIDEST_CODE = 56  # with the numbers of lines that is a terminal of 60


def test_every_lesson_has_its_answers_here():
    assert {lesson.name: len(lesson.questions) for lesson in LESSONS} == {name: len(s) for name, s in RIGHT.items()}


def taken(answers: str, folder: Path) -> list[list[str]]:
    """The whole course, without a person: what was told of each question of each lesson, in a process of its own."""
    file = folder / "answers.txt"
    file.write_text(answers)
    command = [sys.executable, "-m", "extempo", "learn", "--all", "--answers", str(file)]
    environment = {**os.environ, "COLUMNS": "60", "EXTEMPO_STATE_DIR": str(folder / "state")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, encoding="utf-8")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert not (folder / "state").exists()
    lessons = re.split(r"^(?:Done|Your score): .*$", done.stdout, flags=re.M)[:-1]
    return [re.findall(r"^(Right|No, it is [a-d]|Undecided|\(this step needs)", text, re.M) for text in lessons]


@pytest.mark.slow
@pytest.mark.parametrize("answer_right", [True, False])
def test_the_course_runs_without_a_person_and_tells_right_answers_from_wrong_ones(tmp_path, answer_right):
    given = {}
    for lesson in LESSONS:
        wrong = ("a" if letter != "a" else "b" for letter in RIGHT[lesson.name])
        letters = (letter if letter != "." else "a" for letter in (RIGHT[lesson.name] if answer_right else wrong))
        given[lesson.name] = " ".join(letters)
    told = taken("\n".join(f"{name}: {letters}" for name, letters in given.items()), tmp_path)
    for lesson, of_lesson in zip(LESSONS, told, strict=True):
        assert len(of_lesson) == len(lesson.questions), lesson.name
        for number, (right, was) in enumerate(zip(RIGHT[lesson.name], of_lesson, strict=True), 1):
            if was.startswith("(this step needs"):
                assert native() is None
            elif right != ".":
                assert was == ("Right" if answer_right else f"No, it is {right}"), f"{lesson.name}, question {number}"


@pytest.mark.parametrize("name", ["graph", "forming", "changing"])
def test_a_lesson_decides_every_question_and_has_a_reason_for_every_answer(name):
    lesson = next(lesson for lesson in LESSONS if lesson.name == name)
    expected = iter(RIGHT[name])
    with learn.Session(lesson, 60) as session:
        for index, step in enumerate(lesson.steps):
            if step.kind == "question":
                verdict = session.answer(index, 0)
                assert "abcd"[verdict.right] == next(expected), f"{step.text}\n{verdict.outcome.text}"
                assert all(re.search(r"\w", why) and "{" not in why for why in verdict.whys)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_lesson_is_written_for_its_readers(lesson):
    assert lesson.questions
    for step in lesson.steps:
        lines = step.code.splitlines()
        assert [line for line in lines if len(line) > WIDEST_CODE] == []
        for choice in step.choices:
            ast.parse(choice.holds, mode="eval")
            assert choice.why.endswith((".", "!")), choice.why
            assert choice.holds not in ("True", "False"), f"{choice.text}: no run could confirm or refute it"
    ast.parse(lesson.program)


def test_every_part_ends_with_a_quiz_of_at_least_four_questions():
    parts = dict.fromkeys(lesson.part for lesson in LESSONS)
    for part in parts:
        members = [lesson for lesson in LESSONS if lesson.part == part]
        assert [lesson.is_quiz for lesson in members] == [False] * (len(members) - 1) + [True]
        assert len(members[-1].questions) >= 4


def test_right_answers_do_not_stand_in_one_place():
    letters = "".join(RIGHT.values()).replace(".", "")
    for letter in "abc":
        assert letters.count(letter) > len(letters) / 6


def test_lessons_use_the_tools_of_the_library():
    program = "\n".join(lesson.program for lesson in LESSONS)
    assert [name for name in TOPICS.split() if name not in program] == []


def test_the_data_of_lessons_needs_nothing_to_be_computed():
    program = (
        "import sys, json\nfrom extempo import learn\njson.dumps([one.as_dict() for one in learn.lessons()])\n"
        "assert not {'rich', 'click', 'llvmlite'} & set(sys.modules), sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
