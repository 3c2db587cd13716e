"""Drawing: a diagram with a choice of what is folded, in every format that it can be written in."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..svg import Picture
from .html_writer import html_of
from .model import ROOT, Diagram, Group
from .other_writers import dot_of, mermaid_of
from .svg_writer import picture_of
from .text_writer import text_of
from .view import View, opened_to
from .way import way_to


class Drawing:
    """What `draw` gives. `print` shows it as text, a notebook as a picture; `save(path)` writes it.

    >>> drawing = ex.inspect.draw(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), ex.ones(4, 2))
    >>> print(drawing.unfold("0").text(width=60))
    Sequential: 2 ops, 9 parameters
    ○  input                  (4, 2)
       ▾ 0: Linear
    ●    linear(weight bias)  (4, 3)
    ■  ▸ 1: ReLU  1 op        (4, 3)
    """

    def __init__(
        self,
        diagram: Diagram,
        depth: int | None = None,
        loops: str = "rolled",
        gradients: bool = False,
        to: str | int | None = None,
    ) -> None:
        self.diagram = diagram
        self.gradients = gradients
        self._to = to
        self._way = way_to(diagram, to) if to is not None else None
        self._unrolled = {g.number for g in diagram.groups() if g.period} if loops == "unrolled" else set[int]()
        self._opened = opened_to(diagram, depth, self._unrolled)

    @property
    def title(self) -> str:
        """What stands above it."""
        return self.diagram.title

    @property
    def view(self) -> View:
        """What is to be seen now."""
        return View(self.diagram, self._opened, self._unrolled)

    def fold(self, *names: str) -> Drawing:
        """The same with these groups folded, all of them without names.

        >>> drawing = ex.inspect.draw(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), ex.ones(4, 2))
        >>> len(drawing.fold().view.boxes), len(drawing.unfold().view.boxes)
        (3, 3)
        """
        return self._with(self._opened - self._named("fold", names) if names else {ROOT}, self._unrolled)

    def unfold(self, *names: str) -> Drawing:
        """The same with these groups open, all of them without names."""
        everything = {group.number for group in self.diagram.groups()}
        return self._with(self._opened | self._named("unfold", names) if names else everything, self._unrolled)

    def unroll(self, *names: str) -> Drawing:
        """The same with the turns of these loops side by side, of all of them without names."""
        loops = {group.number for group in self.diagram.groups() if group.period}
        chosen = (self._named("unroll", names) if names else loops) & loops
        return self._with(self._opened | chosen, self._unrolled | chosen)

    def _with(self, opened: set[int], unrolled: set[int]) -> Drawing:
        other = Drawing.__new__(Drawing)
        other.__dict__.update(self.__dict__)
        other._opened, other._unrolled = set(opened), set(unrolled)
        return other

    def _named(self, what: str, names: tuple[str, ...]) -> set[int]:
        found: set[int] = set()
        for name in names:
            here = {g.number for g in self.diagram.groups() if name in (g.name, g.title, g.detail)}
            if not here:
                known = ", ".join(sorted({g.name or g.title for g in self.diagram.groups() if g.number != ROOT})[:12])
                raise KeyError(f"{what}: no group is called {name!r}; there are {known or 'none'}")
            found |= here
        return found

    # ---- formats

    def text(self, width: int | None = None) -> str:
        """Lines of at most `width` characters, by default those of the terminal."""
        return text_of(self.view, self.title, width or shutil.get_terminal_size((80, 24)).columns, self._way)

    def picture(self) -> Picture:
        """The picture, as `curve` gives one."""
        return picture_of(self.view, self.title, self.gradients, self._way)

    def svg(self) -> str:
        """The picture as SVG text."""
        return self.picture().svg()

    def html(self) -> str:
        """A page by itself: folds and unfolds, zooms, searches, and says of each op what is known."""
        return html_of(self.diagram, self._opened, self._unrolled, self.gradients, self._way)

    def dot(self) -> str:
        """For Graphviz."""
        return dot_of(self.view, self.title)

    def mermaid(self) -> str:
        """For Mermaid, as READMEs show it."""
        return mermaid_of(self.view, self.title)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str | Path) -> Path:
        """Write it as a file: .html, .svg, .png (with matplotlib), .dot or .gv, .mmd, .txt.

        >>> import tempfile, pathlib
        >>> drawing = ex.inspect.draw(nn.ReLU(), ex.ones(2))
        >>> drawing.save(pathlib.Path(tempfile.mkdtemp()) / "graph.html").name
        'graph.html'
        """
        path = Path(path)
        if path.suffix in (".svg", ".png"):
            return self.picture().save(path)
        writers: dict[str, Callable[[], str]] = {
            ".html": self.html,
            ".dot": self.dot,
            ".gv": self.dot,
            ".mmd": self.mermaid,
            ".txt": lambda: self.text(100) + "\n",
        }
        if path.suffix not in writers:
            known = ", ".join([".svg", ".png", *writers])
            raise ValueError(f"save: expected a path that ends in one of {known}, got {path}")
        path.write_text(writers[path.suffix](), encoding="utf-8")
        return path

    def groups(self) -> list[Any]:
        """The names of what folds and unfolds."""
        return [group.title for group in self.diagram.groups() if isinstance(group, Group) and group.number != ROOT]
