"""What a learner has done so far, in one small JSON file in the user's state directory.

EXTEMPO_STATE_DIR chooses another directory, or none (`off`). A file that cannot be read counts as empty; that, and one
that cannot be written, is told and stops nobody.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..core.files import replacing
from .model import Lesson

VARIABLE = "EXTEMPO_STATE_DIR"
FILE = "learn.json"


@dataclass
class Place:
    """How far somebody is in a lesson: the step that comes next, and how many questions were right of those asked."""

    digest: str
    step: int = 0
    right: int = 0
    asked: int = 0
    finished: bool = False


def chosen_directory(environment: Mapping[str, str]) -> Path | None:
    """Where progress is kept: EXTEMPO_STATE_DIR, or the platform's place for state; None for nowhere."""
    chosen = environment.get(VARIABLE)
    if chosen is not None:
        chosen = chosen.strip()
        return None if chosen.lower() in ("", "off") else Path(os.path.abspath(os.path.expanduser(chosen)))
    if sys.platform == "win32":
        candidates = [os.path.join(environment.get("LOCALAPPDATA", ""), "extempo")]
    elif sys.platform == "darwin":
        candidates = ["~/Library/Application Support/extempo"]
    else:
        candidates = [os.path.join(environment.get("XDG_STATE_HOME", ""), "extempo"), "~/.local/state/extempo"]
    expanded = (os.path.expanduser(candidate) for candidate in candidates)
    return next((Path(path) for path in expanded if os.path.isabs(path)), None)


class Progress:
    """Places in lessons, by the lesson's name. `trouble` says what was wrong with the file, if anything."""

    def __init__(self, directory: Path | None) -> None:
        self.path = None if directory is None else directory / FILE
        self.trouble = ""
        self._places: dict[str, Place] = {}
        self._read()

    def of(self, lesson: Lesson) -> Place:
        """The place in a lesson; a lesson that has changed since begins anew."""
        place = self._places.get(lesson.name)
        if place is None or (place.digest != lesson.digest and not place.finished):
            return Place(lesson.digest)
        return place

    def keep(self, lesson: Lesson, place: Place) -> None:
        """Note a place, and write the file in one step: it is whole at any moment."""
        self._places[lesson.name] = place
        self._write()

    def reset(self) -> None:
        """Forget everything."""
        self._places.clear()
        if self.path is not None and self.path.exists():
            self._write()

    def _read(self) -> None:
        if self.path is None:
            return
        try:
            found = json.loads(self.path.read_bytes())
            self._places = {name: _place(value) for name, value in found["lessons"].items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self.trouble = f"progress in {self.path} cannot be read ({type(error).__name__}); it starts anew"

    def _write(self) -> None:
        if self.path is None:
            return
        text = json.dumps({"lessons": {name: asdict(place) for name, place in self._places.items()}}, indent=1)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(str(self.path)) as file:
                file.write(f"{text}\n".encode())
        except OSError as error:
            self.trouble = f"progress cannot be kept in {self.path}: {error.strerror or error}; set {VARIABLE}"


def _place(value: dict[str, Any]) -> Place:
    """A place as the file has it; a TypeError if it is none."""
    place = Place(**value)
    numbers = (place.step, place.right, place.asked)
    if not isinstance(place.digest, str) or not all(type(n) is int and n >= 0 for n in numbers):
        raise TypeError(f"no place in a lesson: {value}")
    place.finished = bool(place.finished)
    return place
