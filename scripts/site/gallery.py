"""The gallery: a page for each program in examples/, with its picture, what it prints, and its code.

Pictures and output are in docs/gallery/, where scripts/make_gallery.py puts them by running the programs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "gallery"
GUIDES = {  # what an example uses: the guide to it
    "ex.batch(": "[One sample at a time, at batch speed](../batching.md)",
    "ex.compile": "[Dynamic graphs, run as plans](../compiling.md)",
    "ex.program(": "[A model without its class](../exporting.md)",
    "ex.studio(": "[Watch it think](../studio.md)",
    "ex.ragged(": "[Ragged tensors](../ragged.md)",
    "Trainer(": "[Training](../training.md)",
    "metrics": "[Metrics](../metrics.md)",
}


class Example(NamedTuple):
    """A program, by its own words."""

    name: str
    code: str

    @property
    def about(self) -> list[str]:
        """The paragraphs of its opening."""
        return (ast.get_docstring(ast.parse(self.code)) or "").split("\n\n")

    @property
    def title(self) -> str:
        """What its first sentence says before the first comma or colon."""
        return re.split(r"[,:]", self.about[0])[0]


def examples() -> list[Example]:
    return [Example(path.stem, path.read_text()) for path in sorted((ROOT / "examples").glob("*.py"))]


def _page(example: Example) -> str:
    output = (KEPT / f"{example.name}.txt").read_text()
    about = "\n\n".join(text for text in example.about if not text.startswith("    "))
    program = example.code.split('"""', 2)[2].lstrip("\n")
    guides = ", ".join(guide for used, guide in GUIDES.items() if used in program)
    return (
        f"# {example.title}\n\n{about}\n\n![What the model has learned]({example.name}.svg)\n\n"
        f"```sh\npython examples/{example.name}.py\n```\n\nprints, in seconds:\n\n```text\n{output}```\n\n"
        f"## The program\n\nWhat it uses: {guides}.\n\n```python\n{program}```\n"
    )


def _overview(shown: list[Example]) -> str:
    cards = "\n\n".join(
        f"## [{example.title}]({example.name}.md)\n\n[![{example.title}]({example.name}.svg)]({example.name}.md)\n\n"
        f"{example.about[0]}"
        for example in shown
    )
    return (
        "# Gallery\n\nPrograms for data that has no fixed shape: each is one short file and trains in seconds.\n"
        f"The pictures show what the models have learned.\n\n{cards}\n"
    )


def pages() -> Iterator[tuple[str, str]]:
    shown = examples()
    yield "gallery/index.md", _overview(shown)
    for example in shown:
        yield f"gallery/{example.name}.md", _page(example)
