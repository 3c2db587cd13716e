"""The course: a page for each lesson, with answers to open and the output of a real run.

Lessons come from `extempo.learn`; what their code printed and drew is in docs/course/ (scripts/make_course.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from extempo import learn

OPENING = """# The course

Dynamic computation graphs in short lessons. Every question wants an answer first; then the code runs, and its output
decides. Open an answer to see whether it was right and why, and *Run it* to see the run; or take the course with code
that runs on your own machine: `extempo learn` ([how](../course.md)).

The outputs here are those of one run of `python scripts/make_course.py`; times are those of the machine it ran on.
"""
KEPT = Path(__file__).parents[2] / "docs" / "course"


def stem(lesson: learn.Lesson) -> str:
    return f"{lesson.number:02}_{lesson.name}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.rstrip("\n").split("\n"))


def _folded(title: str, text: str, kind: str) -> str:
    """A block that opens by a click."""
    return f'??? {kind} "{title.replace(chr(34), "&quot;")}"\n\n{_indented(text)}\n'


def _output(parts: list[dict[str, str]]) -> str:
    """What was printed, and pictures, those in a row side by side."""
    shown = []
    for is_picture, members in groupby(parts, key=lambda part: "picture" in part):
        if is_picture:
            shown.append("\n".join(f"![The graph: {part['title']}]({part['picture']})" for part in members) + "\n")
        else:
            shown += [f"```text\n{part['text'].rstrip()}\n```\n" for part in members]
    return "\n".join(shown) or "It prints nothing.\n"


def _code(step: learn.Step) -> str:
    return f'```python linenums="{step.line}"\n{step.code}```\n'


def _question(step: learn.Step, kept: dict[str, Any]) -> str:
    """The code, the question, a block for each answer, and one with the run."""
    parts = [_code(step), f"**{step.text}**\n"]
    right = kept["right"]
    for index, (letter, choice) in enumerate(zip("abcdefgh", step.choices, strict=False)):
        told = "Undecided." if right is None else "Right." if right == index else "No."
        parts.append(_folded(f"{letter}) {choice.text}", f"**{told}** {kept['whys'][index]}", "question"))
    decided = f"\nDecided by: `{kept['decided_by']}`\n" if right is not None else "\nThis run could not decide.\n"
    parts.append(_folded("Run it", _output(kept["output"]) + decided, "example"))
    return "\n".join(parts)


def _page(lesson: learn.Lesson) -> str:
    kept = json.loads((KEPT / f"{stem(lesson)}.json").read_text())["steps"]
    parts = [
        f"# {lesson.number}. {lesson.title}\n",
        f"*{lesson.part}.* In a terminal: `extempo learn {lesson.number}`\n",
    ]
    for step, result in zip(lesson.steps, kept, strict=True):
        if step.kind == "text":
            parts.append(f"{step.text}\n")
        elif step.kind == "question":
            parts.append(_question(step, result))
        else:
            shown = f"\n{_output(result['output'])}" if result["output"] else ""
            parts.append(_code(step) + shown)
    if lesson.number < len(learn.lessons()):
        following = learn.lesson(lesson.number + 1)
        parts.append(f"Next: [{following.number}. {following.title}]({stem(following)}.md)\n")
    return "\n".join(parts)


def _overview() -> str:
    parts = [OPENING]
    for part, members in groupby(learn.lessons(), key=lambda one: one.part):
        rows = "\n".join(f"- [{one.number}. {one.title}]({stem(one)}.md)" for one in members)
        parts.append(f"## {part}\n\n{rows}\n")
    return "\n".join(parts)


def pages() -> Iterator[tuple[str, str]]:
    yield "course/index.md", _overview()
    for lesson in learn.lessons():
        yield f"course/{stem(lesson)}.md", _page(lesson)
