"""What a lesson is: a title, the part of the course it belongs to, and steps of text, code and questions.

All of it is plain data. What code prints, and which choice is right, is not here: it comes from a run (`session.py`).
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

TEXT, CODE, QUESTION = "text", "code", "question"


@dataclass(frozen=True)
class Choice:
    """An answer that can be given: it is right if the expression `holds` is true after the step's code has run.

    Args:
        text: the answer.
        holds: an expression in the names of the lesson's code.
        why: the reason, whether it is right or wrong; `{expression:format}` in it stands for a value of the run.

    >>> from extempo import learn
    >>> learn.lesson(1).questions[0].choices[0].text
    'One: the whole formula'
    """

    text: str
    holds: str
    why: str


@dataclass(frozen=True)
class Step:
    """Paragraphs of text; or code; or a question about code, which is asked before that code runs.

    Args:
        kind: "text", "code" or "question".
        text: the paragraphs, or the question.
        code: what is shown and run.
        line: where in the lesson's program the code begins, from 1 on.
        needs: what the code cannot do without: "ex.batch", "native", the name of a package.
        choices: the answers to a question.

    >>> from extempo import learn
    >>> [step.kind for step in learn.lesson(1).steps][:3]
    ['text', 'question', 'text']
    """

    kind: str
    text: str = ""
    code: str = ""
    line: int = 0
    needs: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """A lesson of the course, as it is read from its file.

    Args:
        number: its place in the course, from 1 on.
        name: its file's name without the number; it stays the same if lessons are put before it.
        title: what it is about.
        part: the part of the course that it belongs to.
        steps: what it is made of, in order.

    >>> from extempo import learn
    >>> learn.lesson(1).title
    'What a computation graph is'
    """

    number: int
    name: str
    title: str
    part: str
    steps: tuple[Step, ...]

    @property
    def file(self) -> str:
        """What messages call the program that all code of the lesson makes."""
        return f"lesson_{self.number}.py"

    @property
    def is_quiz(self) -> bool:
        """Whether it is the quiz of its part."""
        return self.name.endswith("quiz")

    @property
    def questions(self) -> list[Step]:
        """The steps that ask."""
        return [step for step in self.steps if step.kind == QUESTION]

    @property
    def program(self) -> str:
        """All code of the lesson, as one program; lines are those that its steps say."""
        return "\n".join(step.code for step in self.steps if step.code)

    @property
    def digest(self) -> str:
        """Changes with whatever there is in the lesson."""
        return hashlib.sha256(repr((self.title, self.part, self.steps)).encode()).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        """The lesson as values that JSON has.

        >>> from extempo import learn
        >>> sorted(learn.lesson(1).as_dict())
        ['name', 'number', 'part', 'quiz', 'steps', 'title']
        """
        return {
            "number": self.number,
            "name": self.name,
            "title": self.title,
            "part": self.part,
            "quiz": self.is_quiz,
            "steps": [asdict(step) for step in self.steps],
        }
