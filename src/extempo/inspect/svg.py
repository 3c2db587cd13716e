"""Small drawings as SVG text: shapes, lines and words at places, nothing more.

What is added here that `png` should paint, too, is added there as well.

    picture = Picture(200, 100, "what it shows")
    picture.rect(10, 10, 50, 20, fill="#eee")
    picture.text(35, 24, "label", anchor="middle")
    picture.save("picture.svg")

A picture carries its own colours and a light background, so that it reads the same on a dark page, and is shown by
Jupyter as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from .png import write as write_png

INK, FAINT, GRID, PAPER = "#222222", "#767676", "#dddddd", "#ffffff"
COLOURS = ("#1f6fb4", "#d1591e", "#2b8a3e", "#8a4fb0", "#b08800", "#b02a4c")  # told apart also by those who see no red
_FONT = "font-family:system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif"


class Picture:
    """A drawing of a given size; y grows downwards."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width = width
        self.height = height
        self.title = title
        self._parts: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, *, title: str = "", **style: Any) -> None:
        inside = f"<title>{escape(title)}</title>" if title else ""
        place = _attributes(x=x, y=y, width=max(width, 0), height=max(height, 0), **style)
        self._parts.append(f"<rect {place}>{inside}</rect>" if inside else f"<rect {place}/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, *, stroke: str = GRID, **style: Any) -> None:
        self._parts.append(f"<line {_attributes(x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, **style)}/>")

    def path(self, points: Iterable[tuple[float, float]], *, stroke: str = INK, **style: Any) -> None:
        """A line through the points."""
        text = " ".join(f"{'L' if i else 'M'}{_number(x)} {_number(y)}" for i, (x, y) in enumerate(points))
        if text:
            self._parts.append(f"<path {_attributes(d=text, stroke=stroke, fill='none', **style)}/>")

    def curve(
        self, start: tuple[float, float], first: tuple[float, float], second: tuple[float, float],
        end: tuple[float, float], *, stroke: str = INK, **style: Any,
    ) -> None:  # fmt: skip
        """A smooth line that leaves `start` towards `first` and comes to `end` from `second`."""
        (x, y), *rest = ((_number(a), _number(b)) for a, b in (start, first, second, end))
        bent = " ".join(f"{a} {b}" for a, b in rest)
        self._parts.append(f"<path {_attributes(d=f'M{x} {y} C{bent}', stroke=stroke, fill='none', **style)}/>")

    def polygon(self, points: Iterable[tuple[float, float]], *, fill: str = INK, **style: Any) -> None:
        """A filled shape, such as the head of an arrow."""
        text = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self._parts.append(f"<polygon {_attributes(points=text, fill=fill, **style)}/>")

    def circle(self, x: float, y: float, r: float, *, title: str = "", **style: Any) -> None:
        inside = f"<title>{escape(title)}</title>" if title else ""
        self._parts.append(f"<circle {_attributes(cx=x, cy=y, r=r, **style)}>{inside}</circle>")

    def text(
        self, x: float, y: float, text: str, *, size: float = 12, anchor: str = "start", fill: str = INK, **style: Any
    ) -> None:
        """Words whose base line is at y; `anchor` is start, middle or end."""
        given = _attributes(x=x, y=y, font_size=size, text_anchor=anchor, fill=fill, **style)
        self._parts.append(f"<text {given}>{escape(text)}</text>")

    def __str__(self) -> str:
        return f"{self.title} ({_number(self.width)} x {_number(self.height)}; save(path) writes it, svg() is its text)"

    __repr__ = __str__

    def svg(self) -> str:
        """The picture as SVG text."""
        size = f'width="{_number(self.width)}" height="{_number(self.height)}"'
        box = f'viewBox="0 0 {_number(self.width)} {_number(self.height)}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img" style="{_FONT}">'
        paper = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", paper, *self._parts, "</svg>"])

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.svg()

    def save(self, path: str | Path) -> Path:
        """Write it as a file: `.svg`, or `.png` where matplotlib is installed."""
        path = Path(path)
        if path.suffix == ".svg":
            path.write_text(self.svg(), encoding="utf-8")
        elif path.suffix == ".png":
            write_png(self.svg(), path)
        else:
            raise ValueError(f"save: expected a path that ends in .svg or .png, got {path}")
        return path


def _attributes(**given: Any) -> str:
    return " ".join(
        f"{name.replace('_', '-')}={quoteattr(_number(value) if isinstance(value, int | float) else str(value))}"
        for name, value in given.items()
    )


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Round numbers from about `low` to about `high`, for an axis."""
    if not math.isfinite(low) or not math.isfinite(high) or high <= low:
        return [low]
    rough = (high - low) / max(n, 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 2.5, 5, 10) if unit * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]
