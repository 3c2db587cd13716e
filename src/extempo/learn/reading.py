"""Lessons are Markdown files, `lessons/<number>_<name>.md`: a title, the part, then text, code and questions.

# Title
part: The graph

Text, as in any Markdown file.

```python            what is shown is what runs; a last line that is a value is shown as in a notebook
total = 1 + 1        ```python needs=ex.batch,native: left out, with a line that says so, where that is missing
```

? A question about the code right above, which runs when it is answered

- Two :: total == 2
  The reason, with values of the run: it was {total}.
- Three :: total == 3
  ...
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

from .model import CODE, QUESTION, TEXT, Choice, Lesson, Step

FOLDER = Path(__file__).parent / "lessons"
_HEAD = re.compile(r"# (?P<title>.+)\npart: (?P<part>.+)\n")
_FENCE = re.compile(r"```python(?: needs=(?P<needs>\S+))?")
_CHOICE = re.compile(r"- (?P<text>.+?) :: (?P<holds>.+)")
_FEWEST_CHOICES = 2


class LessonError(Exception):
    """A file of a lesson is not written as `reading.py` says; the message has its name and line.

    >>> from extempo import learn
    >>> learn.read("# No part", 1, "new")
    Traceback (most recent call last):
    extempo.learn.LessonError: new.md:1: expected `# Title` and `part: ...` as the first two lines
    """


def read(text: str, number: int, name: str) -> Lesson:
    """The lesson that the text of a file is.

    Args:
        text: what the file holds.
        number: the lesson's place in the course.
        name: the file's name, for messages.

    >>> from extempo import learn
    >>> new = learn.read("# Sums\\npart: Mine\\n\\n```python\\nprint(1 + 1)\\n```\\n", 1, "sums")
    >>> learn.Session(new).run(0).text
    '2\\n'
    """
    head = _HEAD.match(text)
    if head is None:
        raise LessonError(f"{name}.md:1: expected `# Title` and `part: ...` as the first two lines")
    steps = _with_lines(_joined(list(_pieces(text, head.end(), name)), name))
    return Lesson(number, name, head["title"].strip(), head["part"].strip(), tuple(steps))


@functools.cache
def _all() -> tuple[Lesson, ...]:
    files = sorted(FOLDER.glob("*.md"))
    return tuple(read(path.read_text("utf-8"), n, path.stem.partition("_")[2]) for n, path in enumerate(files, 1))


def lessons() -> list[Lesson]:
    """All lessons of the course, in order.

    >>> from extempo import learn
    >>> [lesson.number for lesson in learn.lessons()][:3]
    [1, 2, 3]
    """
    return list(_all())


def lesson(number: int) -> Lesson:
    """One lesson; an IndexError says which there are.

    Args:
        number: its place in the course, from 1 on.

    >>> from extempo import learn
    >>> learn.lesson(2).part
    'The graph'
    """
    found = _all()
    if not 1 <= number <= len(found):
        raise IndexError(f"there is no lesson {number}; there are 1 to {len(found)}")
    return found[number - 1]


# ---- pieces of a file


def _pieces(text: str, start: int, name: str) -> Iterator[tuple[int, Step]]:
    """Text, code and questions, with their lines; a question has no code yet."""
    lines = text.splitlines()
    at = text[:start].count("\n")
    while at < len(lines):
        first = at
        if not lines[at].strip():
            at += 1
        elif lines[at].startswith("```"):
            at, step = _code(lines, at, name)
            yield first, step
        elif lines[at].startswith("? "):
            at, step = _question(lines, at, name)
            yield first, step
        else:
            while at < len(lines) and not lines[at].startswith(("```", "? ")):
                at += 1
            yield first, Step(TEXT, "\n".join(lines[first:at]).strip())


def _code(lines: list[str], at: int, name: str) -> tuple[int, Step]:
    fence = _FENCE.fullmatch(lines[at].rstrip())
    if fence is None:
        raise LessonError(f"{name}.md:{at + 1}: expected ```python, got {lines[at]}")
    try:
        end = lines.index("```", at)
    except ValueError:
        raise LessonError(f"{name}.md:{at + 1}: this code has no ``` at its end") from None
    needs = tuple(fence["needs"].split(",")) if fence["needs"] else ()
    return end + 1, Step(CODE, code="\n".join(lines[at + 1 : end]).strip("\n") + "\n", needs=needs)


def _question(lines: list[str], at: int, name: str) -> tuple[int, Step]:
    first, asked = at, [lines[at][2:]]
    at += 1
    while at < len(lines) and not lines[at].startswith(("- ", "```", "? ")):
        asked.append(lines[at])
        at += 1
    choices = []
    while at < len(lines) and lines[at].startswith("- "):
        found = _CHOICE.fullmatch(lines[at])
        if found is None:
            raise LessonError(f"{name}.md:{at + 1}: expected `- an answer :: when it is right`, got {lines[at]}")
        line, why = at, []
        at += 1
        while at < len(lines) and lines[at].startswith("  "):
            why.append(lines[at].strip())
            at += 1
        if not why:
            raise LessonError(f"{name}.md:{line + 1}: this answer has no reason; it stands below, two spaces in")
        choices.append(Choice(found["text"], found["holds"].strip(), " ".join(why)))
    if len(choices) < _FEWEST_CHOICES:
        raise LessonError(f"{name}.md:{first + 1}: a question has at least two answers, each in a line with `- `")
    return at, Step(QUESTION, " ".join(" ".join(asked).split()), choices=tuple(choices))


def _joined(pieces: list[tuple[int, Step]], name: str) -> Iterator[Step]:
    """Steps, each question one with the code above it."""
    waiting: Step | None = None
    for at, step in pieces:
        if step.kind == QUESTION:
            if waiting is None:
                raise LessonError(f"{name}.md:{at + 1}: a question stands right below the code that decides it")
            yield Step(QUESTION, step.text, waiting.code, needs=waiting.needs, choices=step.choices)
            waiting = None
            continue
        if waiting is not None:
            yield waiting
        waiting = step if step.kind == CODE else None
        if waiting is None:
            yield step
    if waiting is not None:
        yield waiting


def _with_lines(steps: Iterator[Step]) -> Iterator[Step]:
    """Steps that know where in the lesson's program their code stands; a blank line is between two."""
    line = 1
    for step in steps:
        if step.code:
            yield Step(step.kind, step.text, step.code, line, step.needs, step.choices)
            line += step.code.count("\n") + 1
        else:
            yield step
