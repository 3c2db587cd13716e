"""Files of lessons, and what is wrong with those that are not written as they should be."""

from __future__ import annotations

import pytest

from extempo import learn

HEAD = "# Title\npart: Part\n\n"
CODE = "```python\nx = 1\n```\n\n"
ASKED = "? What\nis it?\n\n- One :: x == 1\n  Because\n  so.\n- Two :: x == 2\n  Not so.\n"


def read(body: str) -> learn.Lesson:
    return learn.read(HEAD + body, 1, "file")


def test_text_code_and_questions_are_found_in_order():
    lesson = read(f"One.\n\nTwo.\n\n{CODE}{CODE}{ASKED}\nThree.\n")
    assert [step.kind for step in lesson.steps] == ["text", "code", "question", "text"]
    asked = lesson.steps[2]
    assert (asked.text, asked.code, asked.line) == ("What is it?", "x = 1\n", 3)
    assert [choice.why for choice in asked.choices] == ["Because so.", "Not so."]
    assert lesson.steps[0].text == "One.\n\nTwo."


def test_what_code_needs_stands_on_its_fence():
    lesson = read("```python needs=ex.batch,native\nx = 1\n```\n")
    assert lesson.steps[0].needs == ("ex.batch", "native")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"Text.\n\n{ASKED}", r"file.md:6: a question stands right below the code"),
        (f"{CODE}Text.\n\n{ASKED}", r"file.md:10: a question stands right below the code"),
        ("```sh\nls\n```\n", r"file.md:4: expected ```python"),
        ("```python\nx = 1\n", r"file.md:4: this code has no ``` at its end"),
        (f"{CODE}? What?\n\n- One\n  Why.\n", r"file.md:10: expected `- an answer :: when it is right`, got - One"),
        (f"{CODE}? What?\n\n- One :: x\n- Two :: y\n  Why.\n", r"file.md:10: this answer has no reason"),
        (f"{CODE}? What?\n\n- One :: x\n  Why.\n", r"file.md:8: a question has at least two answers"),
    ],
)
def test_a_mistake_is_named_with_its_line(body, message):
    with pytest.raises(learn.LessonError, match=message):
        read(body)


def test_a_file_without_a_part_is_refused():
    with pytest.raises(learn.LessonError, match=r"file\.md:1: expected `# Title`"):
        learn.read("# Title\n\nText", 1, "file")


def test_lessons_are_numbered_in_the_order_of_their_files():
    assert [lesson.number for lesson in learn.lessons()] == list(range(1, len(learn.lessons()) + 1))
    assert learn.lesson(1) is learn.lessons()[0]
    for number in (0, len(learn.lessons()) + 1):
        with pytest.raises(IndexError, match=f"there is no lesson {number}; there are 1 to"):
            learn.lesson(number)
