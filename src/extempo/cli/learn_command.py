"""`extempo learn`: the course in a terminal. It asks, waits for an answer, runs the code, tells what the run decided.

Words are wrapped to the terminal's width. All that it needs of a terminal is lines: no cursor is moved, and colours are
left out where they are not wanted (`NO_COLOR`, `TERM=dumb`, a pipe).
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Callable
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

import click

from extempo.cli.showing import columns
from extempo.learn import Lesson, Outcome, Picture, Session, Step, Verdict, lesson, lessons
from extempo.learn.answers import LETTERS, AnswersError, for_lesson, read_answers
from extempo.learn.model import CODE, QUESTION, TEXT
from extempo.learn.progress import Place, Progress, chosen_directory

INTERRUPTED = 130  # what shells report for a command ended by SIGINT
WIDEST = 88  # longer lines of prose are hard to read
_GAP = "    "  # between pictures
_LEAVING = ("q", "quit", "exit")
_EMPHASIS = re.compile(r"(\*\*?)(\w[^*]*\S)\1")
Answers = Callable[[Step], int]


class Leave(Exception):
    """The learner wants to go; with the exit status that this is."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


# ---- commands


def show_list(as_json: bool) -> None:
    """Every lesson with what was done of it."""
    progress = Progress(chosen_directory(os.environ))
    if as_json:
        click.echo(json.dumps([{**one.as_dict(), "progress": _figures(progress, one)} for one in lessons()], indent=1))
        return
    _say_trouble(progress)
    for part, members in groupby(lessons(), key=lambda one: one.part):
        _say(part, bold=True)
        for one in members:
            _say_lesson(one, _mark(progress.of(one)))
    begun = next((one for one in lessons() if not progress.of(one).finished), None)
    click.echo()
    if begun is None:
        _prose("All lessons are done. `extempo learn --reset` forgets that.", min(columns(), WIDEST))
    else:
        verb = "Begin with" if begun.number == 1 and not progress.of(begun).step else "Go on with"
        _say(f"{verb} `extempo learn {begun.number}`.")


def reset() -> None:
    """Forget what was done."""
    progress = Progress(chosen_directory(os.environ))
    progress.reset()
    _say(progress.trouble if "kept" in progress.trouble else "Progress is forgotten: every lesson is new again.")


def take(numbers: list[int]) -> int:
    """Take lessons with somebody at the terminal; returns the exit status."""
    progress = Progress(chosen_directory(os.environ))
    _say_trouble(progress)
    try:
        for i, number in enumerate(numbers):
            if i and not _asked_to_go_on():
                break
            _Taking(lesson(number), progress).go()
    except Leave as leaving:
        return leaving.status
    return 0


def take_alone(numbers: list[int], file: Path) -> int:
    """Take lessons without a person, by a file of answers; the exit status is 1 if some code did not run."""
    try:
        given = read_answers(file.read_text("utf-8"), lessons())
        choices = {number: for_lesson(given, lesson(number)) for number in numbers}
    except (AnswersError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file}: {error}") from None
    places, failed = [], False
    for number in numbers:
        waiting = iter(choices[number])
        taking = _Taking(lesson(number), None, lambda step, waiting=waiting: next(waiting))  # type: ignore[misc]  # a default binds now
        places.append(taking.go())
        failed = failed or taking.failed
    right, asked = sum(place.right for place in places), sum(place.asked for place in places)
    click.echo()
    _say(f"{len(places)} lessons, {right} of {asked} answers right.", bold=True)
    return 1 if failed else 0


# ---- one lesson


class _Taking:
    """One lesson, step by step. Without `progress` nothing is kept, and `answers` says what would be typed."""

    def __init__(self, taken: Lesson, progress: Progress | None, answers: Answers | None = None) -> None:
        self.lesson = taken
        self.progress = progress
        self.answers = answers
        self.failed = False
        self.width = min(columns(), WIDEST)
        place = progress.of(taken) if progress is not None else Place(taken.digest)
        self.place = Place(taken.digest) if place.finished else place
        self.before = place if place.finished else None  # what an earlier time gave

    def go(self) -> Place:
        """Take it from where it was left, to its end."""
        _title(f"{self.lesson.number}. {self.lesson.title}", self.lesson.part, self.width)
        try:
            with Session(self.lesson, self.width) as session:
                self._come_back(session)
                for index in range(self.place.step, len(self.lesson.steps)):
                    self._step(session, index)
        except KeyboardInterrupt:
            self._leave(INTERRUPTED)
        except EOFError:
            self._leave(0)
        self._end()
        return self.place

    def _come_back(self, session: Session) -> None:
        if not self.place.step:
            return
        _say(f"You were at step {self.place.step + 1} of {len(self.lesson.steps)}; the code before it is run again.")
        session.run(max((i for i in range(self.place.step) if self.lesson.steps[i].code), default=0))

    def _step(self, session: Session, index: int) -> None:
        step = self.lesson.steps[index]
        click.echo()
        if step.kind == TEXT:
            _prose(step.text, self.width)
        else:
            _show_code(step)
        if step.kind == QUESTION:
            self._ask(session, index)
        elif step.kind == CODE:
            _say_running()
            self._show_outcome(session.run(index))
        self.place.step = index + 1
        self._keep()
        if step.kind == QUESTION and self.answers is None and index + 1 < len(self.lesson.steps):
            _pause()

    def _ask(self, session: Session, index: int) -> None:
        step = self.lesson.steps[index]
        click.echo()
        _prose(step.text, self.width, bold=True)
        for letter, option in zip(LETTERS, step.choices, strict=False):
            _hanging(f"  {letter}) ", option.text, self.width)
        choice = self.answers(step) if self.answers is not None else _typed(step)
        if self.answers is not None:
            _say(f"> {LETTERS[choice]}")
        _say_running()
        verdict = session.answer(index, choice)
        self._show_outcome(verdict.outcome)
        if verdict.outcome.error or verdict.outcome.left_out:
            return
        _tell(verdict, step, self.width)
        if verdict.right is not None:
            self.place.asked += 1
            self.place.right += verdict.is_right

    def _show_outcome(self, outcome: Outcome) -> None:
        if outcome.left_out:
            _prose(f"({outcome.left_out})", self.width)
            return
        for are_pictures, parts in groupby(outcome.parts, key=lambda part: isinstance(part, Picture)):
            texts = [part.text if isinstance(part, Picture) else part for part in parts]
            for line in _side_by_side(texts, self.width) if are_pictures else "".join(texts).splitlines():
                _output_line(line, self.width)
        if outcome.error:
            self.failed = True
            click.echo(_styled(outcome.error, fg="red"))
            _prose("This code should have run: please report it, with what `extempo info` prints.", self.width)

    def _keep(self) -> None:
        if self.progress is not None and self.before is None:
            self.progress.keep(self.lesson, self.place)

    def _leave(self, status: int) -> None:
        click.echo()
        if self.before is None:
            _say(f"Until next time: `extempo learn {self.lesson.number}` goes on here.")
        raise Leave(status)

    def _end(self) -> None:
        self.place.finished = True
        if self.progress is not None:
            best = self.before is None or self.place.right >= self.before.right
            self.progress.keep(self.lesson, self.place if best else self.before or self.place)
            _say_trouble(self.progress)
        click.echo()
        what = "Your score" if self.lesson.is_quiz else "Done"
        _say(f"{what}: {self.place.right} of {self.place.asked} answers right.", bold=True)
        if self.answers is None and self.lesson.number < len(lessons()):
            following = lesson(self.lesson.number + 1)
            _prose(f"Next: `extempo learn {following.number}`, {following.title}", self.width)


# ---- what is typed


def _typed(step: Step) -> int:
    """A letter, or a number, of a choice."""
    last = LETTERS[len(step.choices) - 1]
    while True:
        given = input(f"Your answer (a-{last}, q to leave): ").strip().lower().rstrip(").")
        if given in _LEAVING:
            raise EOFError
        if len(given) == 1 and given in LETTERS[: len(step.choices)]:
            return LETTERS.index(given)
        if given.isdecimal() and 1 <= int(given) <= len(step.choices):
            return int(given) - 1
        _say(f"Type a letter from a to {last}, then Enter.")


def _pause() -> None:
    if input("[Enter] goes on ").strip().lower() in _LEAVING:
        raise EOFError


def _asked_to_go_on() -> bool:
    try:
        return input("[Enter] next lesson, q to leave ").strip().lower() not in _LEAVING
    except EOFError:
        return False
    except KeyboardInterrupt:
        raise Leave(INTERRUPTED) from None


# ---- what is shown


def _styled(text: str, **style: Any) -> str:
    """In colour or bold, where somebody looks at a terminal that can show it."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return text if plain else click.style(text, **style)


def _say(text: str, bold: bool = False) -> None:
    click.echo(_styled(text, bold=True) if bold else text)


def _say_running() -> None:
    """A line before the code runs, so that seconds of waiting have a reason."""
    click.echo(_styled("--- running", fg="bright_black"))


def _say_trouble(progress: Progress) -> None:
    if progress.trouble:
        _prose(f"Note: {progress.trouble}.", min(columns(), WIDEST))


def _mark(place: Place) -> str:
    if place.finished:
        return f"{place.right}/{place.asked}"
    return "..." if place.step else ""


def _say_lesson(one: Lesson, mark: str) -> None:
    _hanging(f"{one.number:3}  {mark:>5}  ", one.title, min(columns(), WIDEST))


def _figures(progress: Progress, one: Lesson) -> dict[str, Any]:
    place = progress.of(one)
    return {"step": place.step, "right": place.right, "asked": place.asked, "finished": place.finished}


def _title(text: str, part: str, width: int) -> None:
    click.echo()
    _hanging("", text, width, bold=True)
    _say(part)


def _hanging(head: str, text: str, width: int, bold: bool = False) -> None:
    """Text whose later lines stand below its first word."""
    lines = textwrap.wrap(text, max(width - len(head), 20), break_long_words=False) or [""]
    for i, line in enumerate(lines):
        _say((head if i == 0 else " " * len(head)) + line, bold)


def _prose(text: str, width: int, bold: bool = False) -> None:
    """Paragraphs and lists of Markdown, wrapped."""
    paragraphs = text.split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if number:
            click.echo()
        for item in re.split(r"\n(?=- )", paragraph):
            words = _EMPHASIS.sub(r"\2", " ".join(item.split()))
            if words.startswith("- "):
                _hanging("- ", words[2:], width, bold)
            else:
                _hanging("", words, width, bold)


def _show_code(step: Step) -> None:
    """Code with the numbers that output calls its lines by."""
    for number, line in enumerate(step.code.rstrip("\n").split("\n"), step.line):
        shown = f" {_styled(line, fg='cyan')}" if line else ""
        click.echo(_styled(f"{number:3}", fg="bright_black") + shown)


def _side_by_side(pictures: list[str], width: int) -> list[str]:
    """Lines that show as many pictures in a row as there is room for, with a blank line between rows."""
    column = max(len(line) for picture in pictures for line in picture.splitlines()) + len(_GAP)
    n_columns = max((width + len(_GAP)) // column, 1)
    lines: list[str] = []
    for start in range(0, len(pictures), n_columns):
        row = zip_longest(*(text.splitlines() for text in pictures[start : start + n_columns]), fillvalue="")
        lines += [*([""] if start else []), *("".join(cell.ljust(column) for cell in cells).rstrip() for cells in row)]
    return lines


def _output_line(line: str, width: int) -> None:
    """A line of output; what does not fit goes on in the next one."""
    if len(line) <= width:
        click.echo(line)
        return
    for part in textwrap.wrap(line, width, subsequent_indent="    ", replace_whitespace=False):
        click.echo(part)


def _tell(verdict: Verdict, step: Step, width: int) -> None:
    """What the run decided, and why."""
    click.echo()
    if verdict.right is None:
        _prose("Undecided: the figures of this run lie too close together, or are too noisy, to call one right.", width)
        _prose("It does not count. On a machine that does nothing else, the lesson taken again may tell.", width)
        _hanging(f"  {LETTERS[verdict.chosen]}) ", verdict.whys[verdict.chosen], width)
        return
    if verdict.is_right:
        click.echo(_styled("Right.", fg="green"))
        _prose(verdict.whys[verdict.chosen], width)
    else:
        click.echo(_styled(f"No, it is {LETTERS[verdict.right]}.", fg="red"))
        for index in (verdict.chosen, verdict.right):
            _hanging(f"  {LETTERS[index]}) ", verdict.whys[index], width)
    _prose(f"Decided by the run: `{verdict.decided_by}`", width)
