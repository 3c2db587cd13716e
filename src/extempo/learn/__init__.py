"""The course on dynamic computation graphs, as plain data that any face can show: terminal, web page, documentation.

    for lesson in learn.lessons():      # number, title, part and steps; `as_dict()` for JSON
        session = learn.Session(lesson)
        session.run(0)                  # a step's code, here and now: what it printed, and its pictures
        session.answer(1, 0)            # commits to a choice, runs the code, and lets the run decide

A lesson is one Markdown file in `lessons/`, which `reading.py` takes apart; `extempo learn` shows them in a terminal.
"""

from __future__ import annotations

from ..core.public_names import publish
from .model import Choice, Lesson, Step
from .reading import LessonError, lesson, lessons, read
from .session import Outcome, Picture, Session, Verdict

__all__ = [
    "Choice",
    "Lesson",
    "LessonError",
    "Outcome",
    "Picture",
    "Session",
    "Step",
    "Verdict",
    "lesson",
    "lessons",
    "read",
]

publish(__name__, __all__, globals())
