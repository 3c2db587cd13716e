"""Write docs/errors.md: every exception with its docstring, lines that raise it, what they say, and lines that work.

The lines stand in error_examples.py, and are run here: the messages on the page are those of the library.

python scripts/make_error_docs.py            write the file
python scripts/make_error_docs.py --check    exit with 1 if it is out of date
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from pathlib import Path

from error_examples import MISTAKES, run

from extempo import errors
from extempo.serialization import FileFormatError
from extempo.train import NonFiniteLossError

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"

OPENING = """# Errors

What each exception means, lines that raise it with the message that they get, and the same lines as they work.
Every message says the operation, what was expected, what came, and what to do next; where it helps, the file and line.

The exceptions are in `ex.errors`. What else each is stands in brackets, so that code written for PyTorch or for plain
Python catches what it expects:
"""


def exceptions() -> list[type[Exception]]:
    """Those of the errors module in its order, then those that one package has for itself."""
    shared = [cls for cls in vars(errors).values() if inspect.isclass(cls) and cls.__module__ == errors.__name__]
    return [*shared, FileFormatError, NonFiniteLossError]


def section(cls: type[Exception]) -> str:
    """An exception: what it is, and a mistake that raises it."""
    bases = ", ".join(base.__name__ for base in cls.__bases__)
    text = f"\n## {cls.__name__}\n\n*{bases}*\n\n{inspect.getdoc(cls)}\n"
    if cls.__name__ not in MISTAKES:
        return text
    wrong, right = MISTAKES[cls.__name__]
    raised, failed = run(wrong), run(right)
    if raised is None or not isinstance(raised.error, cls) or failed is not None:
        raise TypeError(f"error_examples: the lines for {cls.__name__} give {raised}, those that work {failed}")
    message = textwrap.fill(raised.message, 84, break_long_words=False, break_on_hyphens=False)
    return text + f"\n```python\n{wrong}```\n\n```text\n{message}\n```\n\nIn its place:\n\n```python\n{right}```\n"


def page() -> str:
    """The text of the page: the tree, then a section per exception."""
    module = inspect.getdoc(errors) or ""
    tree = "\n".join(line for line in module.splitlines() if line.startswith("    "))
    return f"{OPENING}\n{tree}\n" + "".join(map(section, exceptions()))


def main() -> int:
    if "--check" in sys.argv:
        fresh = PAGE.exists() and PAGE.read_text() == page()
        print("up to date" if fresh else f"{PAGE.name} is out of date: run python scripts/make_error_docs.py")
        return 0 if fresh else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
