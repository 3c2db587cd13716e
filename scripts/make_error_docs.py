"""Write docs/errors.md from the docstrings of src/extempo/errors.py.

python scripts/make_error_docs.py            write the file
python scripts/make_error_docs.py --check    exit with 1 if it is out of date
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from extempo import errors

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"


def page() -> str:
    """The text of the page: the tree, then a section per exception, in the order of the module."""
    module = inspect.getdoc(errors) or ""
    tree = "\n".join(line for line in module.splitlines() if line.startswith("    "))
    text = (
        f"# Errors\n\nEvery message says the operation, what was expected, what came, and what to do next.\n\n{tree}\n"
    )
    for name, cls in vars(errors).items():
        if inspect.isclass(cls) and issubclass(cls, Exception) and cls.__module__ == errors.__name__:
            bases = [b.__name__ for b in cls.__bases__]
            text += f"\n## {name}\n\n*{', '.join(bases)}*\n\n{inspect.getdoc(cls)}\n"
    return text


def main() -> int:
    if "--check" in sys.argv:
        fresh = PAGE.exists() and PAGE.read_text() == page()
        print("up to date" if fresh else f"{PAGE.name} is out of date: run python scripts/make_error_docs.py")
        return 0 if fresh else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
