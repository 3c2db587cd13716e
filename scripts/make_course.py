"""Run the lessons of the course and keep what they print and draw, for their pages in the site.

docs/course/<lesson>.json has the output of each step, which answer it made right and why; pictures stand beside it.

python scripts/make_course.py                 all lessons, in about half a minute
python scripts/make_course.py graph leak      these, by name or number
python scripts/make_course.py --check         exit with 1 if a lesson is not the one that its output is of
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from extempo import learn

COURSE = Path(__file__).resolve().parent.parent / "docs" / "course"
WIDTH = 80


def stem(lesson: learn.Lesson) -> str:
    """The name of its page."""
    return f"{lesson.number:02}_{lesson.name}"


def stale() -> list[str]:
    """Lessons that have changed since they were run, or were not run at all; and files of lessons that are gone."""
    found = [stem(lesson) for lesson in learn.lessons() if _digest_kept(lesson) != lesson.digest]
    known = {stem(lesson) for lesson in learn.lessons()}
    return found + [path.name for path in COURSE.glob("*.json") if path.stem not in known]


def _digest_kept(lesson: learn.Lesson) -> str:
    path = COURSE / f"{stem(lesson)}.json"
    return json.loads(path.read_text())["digest"] if path.exists() else ""


def run(lesson: learn.Lesson) -> None:
    """Take a lesson with the first answer to everything, and keep what came of it."""
    for old in COURSE.glob(f"{stem(lesson)}_*.svg"):
        old.unlink()
    with learn.Session(lesson, WIDTH) as session:
        steps = [_kept(lesson, session, index) for index in range(len(lesson.steps))]
    (COURSE / f"{stem(lesson)}.json").write_text(json.dumps({"digest": lesson.digest, "steps": steps}, indent=1) + "\n")


def _kept(lesson: learn.Lesson, session: learn.Session, index: int) -> dict[str, Any]:
    """What a step's code gave: output, text or names of pictures; of a question also the verdict."""
    step = lesson.steps[index]
    if not step.code:
        return {}
    verdict = session.answer(index, 0) if step.choices else None
    outcome = session.run(index) if verdict is None else verdict.outcome
    assert not outcome.error, outcome.error
    assert not outcome.left_out, f"{stem(lesson)}: {outcome.left_out}"
    output = []
    for number, part in enumerate(outcome.parts):
        if isinstance(part, learn.Picture):
            name = f"{stem(lesson)}_{index}_{number}.svg"
            (COURSE / name).write_text(f"{part.svg}\n")
            output.append({"picture": name, "title": part.text.partition("\n")[0]})
        else:
            output.append({"text": part})
    kept: dict[str, Any] = {"output": output}
    if verdict is not None:
        kept |= {"right": verdict.right, "decided_by": verdict.decided_by, "whys": list(verdict.whys)}
    return kept


def main() -> int:
    if "--check" in sys.argv:
        names = stale()
        print(f"not current: {', '.join(names)}; run python scripts/make_course.py" if names else "up to date")
        return 1 if names else 0
    COURSE.mkdir(exist_ok=True)
    asked = sys.argv[1:]
    for lesson in learn.lessons():
        if not asked or lesson.name in asked or str(lesson.number) in asked:
            print(stem(lesson))
            run(lesson)
    known = {stem(lesson) for lesson in learn.lessons()}
    for path in COURSE.glob("*.*"):
        if not any(path.name.startswith(name) for name in known):
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
