"""The lessons of `extempo learn` as the studio's tab shows them; where there are none, the tab says so."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def lessons_message() -> dict[str, Any]:
    """Lessons as data, or why there are none."""
    try:
        course = import_module("extempo.learn")
    except ImportError as error:
        return {"available": False, "why": f"the lessons are not there ({error})"}
    tell = getattr(course, "lessons", None)
    if tell is None:
        return {"available": False, "why": "the lessons are not there: extempo.learn has no function lessons()"}
    return {"available": True, "lessons": [_before_the_answer(lesson.as_dict()) for lesson in tell()]}


def _before_the_answer(lesson: dict[str, Any]) -> dict[str, Any]:
    """A lesson without what would tell the right answers: the run decides."""
    steps = [
        {**step, "choices": [{"text": choice["text"]} for choice in step.get("choices", ())]}
        for step in lesson.get("steps", ())
    ]
    return {**lesson, "steps": steps}
