"""A session takes one lesson: it runs the code of steps, in one namespace, and lets the run decide what was right.

Code runs in this process as a module of its own, so that tools find its source; what it prints is kept, not shown.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import importlib.util
import io
import linecache
import os
import re
import sys
import time
import traceback
import types
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .model import QUESTION, Lesson, Step

WIDTH = 80
_VALUE = re.compile(r"\{([^{}]+?)(?::([^{}:]*))?\}")


@dataclass(frozen=True)
class Picture:
    """A value that code has shown and that can be drawn.

    Args:
        text: for terminals.
        svg: for pages.

    >>> from extempo import learn
    >>> print(learn.Session(learn.lesson(1)).run(3).parts[0].text)
    formula: 2 ops
    ...
    """

    text: str
    svg: str


@dataclass(frozen=True)
class Outcome:
    """What a step's code did.

    Args:
        parts: its output in order, text and pictures.
        seconds: how long it took.
        error: the traceback, if it raised something.
        left_out: why it did not run, if it did not.

    >>> from extempo import learn
    >>> learn.Session(learn.lesson(1)).run(1).text
    "['leaf', 'add', 'mul']\\n"
    """

    parts: tuple[str | Picture, ...] = ()
    seconds: float = 0.0
    error: str = ""
    left_out: str = ""

    @property
    def text(self) -> str:
        """All output as text, pictures as their text."""
        return "".join(part if isinstance(part, str) else f"{part.text}\n" for part in self.parts)

    def as_dict(self) -> dict[str, Any]:
        """The outcome as values that JSON has: `output` is a list of objects of `kind` text or picture.

        >>> from extempo import learn
        >>> sorted(learn.Session(learn.lesson(1)).run(1).as_dict())
        ['error', 'left_out', 'output', 'seconds']
        """
        parts = [
            {"kind": "text", "text": part} if isinstance(part, str) else {"kind": "picture", **asdict(part)}
            for part in self.parts
        ]
        return {"output": parts, "seconds": self.seconds, "error": self.error, "left_out": self.left_out}


@dataclass(frozen=True)
class Verdict:
    """What the run decided of a question.

    Args:
        outcome: what the code did.
        chosen: the choice that was committed to.
        right: the choice that is right; None if the run cannot tell.
        decided_by: the expression that is true of the run.
        whys: of each choice the reason.

    >>> from extempo import learn
    >>> verdict = learn.Session(learn.lesson(1)).answer(1, choice=0)
    >>> verdict.is_right, verdict.right, verdict.decided_by
    (False, 1, 'len(graph) == 3')
    """

    outcome: Outcome
    chosen: int
    right: int | None
    decided_by: str = ""
    whys: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether the choice was the right one."""
        return self.right is not None and self.chosen == self.right

    def as_dict(self) -> dict[str, Any]:
        """The verdict as values that JSON has.

        >>> from extempo import learn
        >>> verdict = learn.Session(learn.lesson(1)).answer(1, 0)
        >>> sorted(verdict.as_dict())
        ['chosen', 'decided_by', 'is_right', 'outcome', 'right', 'whys']
        """
        return {
            "outcome": self.outcome.as_dict(),
            "chosen": self.chosen,
            "right": self.right,
            "is_right": self.is_right,
            "decided_by": self.decided_by,
            "whys": list(self.whys),
        }


class Session:
    """One person's run of a lesson.

    Args:
        lesson: what `learn.lesson` or `learn.read` gave.
        width: how many characters a line of a picture's text may have.

    >>> from extempo import learn
    >>> session = learn.Session(learn.lesson(1))
    >>> session.answer(1, 1).is_right
    True
    """

    def __init__(self, lesson: Lesson, width: int = WIDTH) -> None:
        self.lesson = lesson
        self.width = width
        self._name = lesson.file.removesuffix(".py")
        self._module = types.ModuleType(self._name)
        self._module.__file__ = lesson.file
        self._done: set[int] = set()

    def run(self, index: int) -> Outcome:
        """Run a step's code, and before it what has not run yet of the code above it.

        Args:
            index: the step's place among the lesson's steps, from 0 on.
        """
        step = self.lesson.steps[index]
        for before in range(index):
            if before not in self._done and self.lesson.steps[before].code:
                failed = self._run_one(before)
                if failed.error:
                    return failed
        return self._run_one(index) if step.code else Outcome()

    def answer(self, index: int, choice: int) -> Verdict:
        """Commit to a choice, run the step's code, and let it decide.

        Args:
            index: the step's place among the lesson's steps, from 0 on.
            choice: the answer's place among the step's choices, from 0 on.
        """
        step = self.lesson.steps[index]
        if step.kind != QUESTION:
            raise ValueError(f"step {index} of lesson {self.lesson.number} asks nothing: it is {step.kind}")
        if not 0 <= choice < len(step.choices):
            raise ValueError(f"step {index} has answers 0 to {len(step.choices) - 1}, got {choice}")
        outcome = self.run(index)
        if outcome.error or outcome.left_out:
            return Verdict(outcome, choice, None, whys=tuple("" for _ in step.choices))
        return self._judged(step, choice, outcome)

    def close(self) -> None:
        """Forget all that the lesson's code has made; `with` does it at the end of its block."""
        vars(self._module).clear()
        sys.modules.pop(self._name, None)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _judged(self, step: Step, choice: int, outcome: Outcome) -> Verdict:
        names = vars(self._module)
        holding = [i for i, option in enumerate(step.choices) if eval(option.holds, names)]
        right = holding[0] if len(holding) == 1 else None
        whys = tuple(_filled(option.why, names) for option in step.choices)
        return Verdict(outcome, choice, right, "" if right is None else step.choices[right].holds, whys)

    def _run_one(self, index: int) -> Outcome:
        step = self.lesson.steps[index]
        self._done.add(index)
        missing = [name for name in step.needs if not is_there(name)]
        if missing:
            return Outcome(left_out=f"this step needs {' and '.join(missing)}, which is not there: it is left out")
        self._be_known()
        parts, error, start = _Parts(self.width), "", time.perf_counter()
        try:
            with contextlib.redirect_stdout(parts.printed), _plain_debugger():
                self._execute(step, parts)
        except Exception as raised:
            error = self._told(raised)
        return Outcome(parts.all(os.path.abspath(self.lesson.file)), time.perf_counter() - start, error)

    def _execute(self, step: Step, parts: _Parts) -> None:
        tree = ast.parse("\n" * (step.line - 1) + step.code, self.lesson.file)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        names = vars(self._module)
        exec(compile(tree, self.lesson.file, "exec"), names)
        if isinstance(last, ast.Expr):
            parts.show(eval(compile(ast.Expression(last.value), self.lesson.file, "eval"), names))

    def _be_known(self) -> None:
        """Let tools that look for the source of a function find it."""
        text = self.lesson.program
        for name in (self.lesson.file, os.path.abspath(self.lesson.file)):  # pdb asks for the whole path
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        sys.modules[self._name] = self._module

    def _told(self, raised: Exception) -> str:
        """The error, with the lesson's own lines only."""
        told = traceback.TracebackException.from_exception(raised)
        told.stack = traceback.StackSummary.from_list([f for f in told.stack if f.filename == self.lesson.file])
        return "".join(told.format()).rstrip()


class _Parts:
    """Output as it comes: what is printed, and pictures in between."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.printed = io.StringIO()
        self._parts: list[str | Picture] = []

    def show(self, value: Any) -> None:
        """The last value of a cell, as a notebook shows it; a list of pictures one by one."""
        if value is None:
            return
        self._flush()
        for one in value if isinstance(value, list) and all(map(_can_be_drawn, value)) else [value]:
            if _can_be_drawn(one):
                self._parts.append(Picture(one.text(width=self.width), one.svg()))
            else:
                self._parts.append(f"{one!r}\n")

    def all(self, path: str) -> tuple[str | Picture, ...]:
        """Everything; a path to the lesson's program, which is no file, is its name alone."""
        self._flush()
        short = os.path.basename(path)
        return tuple(part.replace(path, short) if isinstance(part, str) else part for part in self._parts)

    def _flush(self) -> None:
        if self.printed.getvalue():
            self._parts.append(self.printed.getvalue())
            self.printed.seek(0)
            self.printed.truncate()


@contextlib.contextmanager
def _plain_debugger() -> Iterator[None]:
    """Let `breakpoint()` be Python's own, which lessons show; what they say is typed into it is seen, and put back."""
    stdin, hook, chosen = sys.stdin, sys.breakpointhook, os.environ.pop("PYTHONBREAKPOINT", None)
    plain_input = builtins.input

    def echoing(prompt: object = "") -> str:
        typed = plain_input(prompt)
        print(typed)
        return typed

    sys.breakpointhook, builtins.input = sys.__breakpointhook__, echoing
    try:
        yield
    finally:
        sys.stdin, sys.breakpointhook, builtins.input = stdin, hook, plain_input
        if chosen is not None:
            os.environ["PYTHONBREAKPOINT"] = chosen


def _can_be_drawn(value: Any) -> bool:
    return callable(getattr(value, "svg", None)) and callable(getattr(value, "text", None))


def _filled(why: str, names: dict[str, Any]) -> str:
    """A reason with the values that it names."""
    return _VALUE.sub(lambda found: format(eval(found[1], names), found[2] or ""), why)


def is_there(name: str) -> bool:
    """Whether a tool is: `ex.batch` by name, `native` for native kernels, otherwise a package that can be imported."""
    if name == "native":
        from ..backends.selection import native

        return native() is not None
    if not name.startswith("ex."):
        return importlib.util.find_spec(name) is not None
    value: Any = importlib.import_module("extempo")
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value is not None
