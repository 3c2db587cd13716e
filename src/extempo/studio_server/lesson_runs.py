"""Lessons run in front of the learner, in a process of their own: what their code changes is not the training's.

Nothing of a page is code: it sends the numbers of a lesson, a step and a choice. One lesson runs at a time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ..core import locks
from .commands import PageCommand, RefusedCommand
from .messages import to_json
from .outboxes import Outbox

PATIENCE = 180.0  # seconds that a step of a lesson may take
_running = locks.renewed()
_is_running: list[PageCommand] = []  # the one that runs


def run_lesson(command: PageCommand, outbox: Outbox) -> None:
    """Run a step of a lesson; the answer comes when it is done."""
    with _running:
        if _is_running:
            raise RefusedCommand("learn: a step of a lesson is running already; it ends in a moment")
        _is_running.append(command)
    threading.Thread(target=_run, args=(command, outbox), name="extempo lesson", daemon=True).start()


def _run(command: PageCommand, outbox: Outbox) -> None:
    try:
        message = _answer(command)
    except Exception as error:
        message = {"ok": False, "error": f"{type(error).__name__}: {error}"}
    finally:
        _is_running.clear()
    outbox.answer({"type": "learn", "id": command.id, **message})


def _answer(command: PageCommand) -> dict[str, Any]:
    fields = command.fields
    numbers = [str(fields[name]) for name in ("lesson", "step", "choice")]
    # The module is named by text, and its arguments are whole numbers or "None": commands has checked them.
    done = subprocess.run(
        [sys.executable, "-m", __name__, *numbers], capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["it ended without a word"]
        return {"ok": False, "error": f"learn: {said[-1][:500]}"}
    found = json.loads(done.stdout)
    return {"ok": True, "lesson": fields["lesson"], "step": fields["step"], **found}


def main(arguments: Sequence[str]) -> None:
    """Run one step, or answer its question, and print what came of it as JSON."""
    number, step, choice = (None if text == "None" else int(text) for text in arguments)
    course: Any = import_module("extempo.learn")
    with course.Session(course.lesson(number)) as session:
        if choice is None:
            found = {"outcome": session.run(step).as_dict(), "verdict": None}
        else:
            found = {"outcome": None, "verdict": session.answer(step, choice).as_dict()}
    print(to_json(found))


if __name__ == "__main__":
    main(sys.argv[1:])
