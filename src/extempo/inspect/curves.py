"""Lines over steps or epochs: as SVG, and as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from .svg import COLOURS, FAINT, GRID, INK, Picture, ticks

_WIDTH, _LEFT, _RIGHT, _BOTTOM = 480, 58, 16, 42  # of a picture, and of the space around its axes
_BARS = " ▁▂▃▄▅▆▇█"


def curve(series: Mapping[str, Sequence[float]], title: str = "", x_label: str = "epoch", start: int = 1) -> Picture:
    """A line for each series over 1, 2, 3, ...; what is not finite is left out.

    >>> ex.inspect.curve({"loss": [2.0, 1.0, 0.5]}, "Loss").svg().startswith("<svg")
    True
    """
    places = _legend(list(series), _LEFT + 8, _WIDTH - _RIGHT)
    top = max((y for _, y in places), default=37) + 7
    height = 216 + top
    title = title or ", ".join(series)
    picture = Picture(_WIDTH, height, title)
    picture.text(_LEFT, 20, title if len(title) <= 44 else title[:43] + "…", size=14, font_weight=600)
    lines = {
        name: [(start + i, v) for i, v in enumerate(values) if math.isfinite(v)] for name, values in series.items()
    }
    every = [point for line in lines.values() for point in line]
    if not every:
        picture.text(_WIDTH / 2, height / 2, "nothing to show", anchor="middle", fill=FAINT)
        return picture
    axes = _Axes(every, top, height)
    axes.draw(picture, x_label)
    for i, (name, line) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        picture.path([axes.at(x, y) for x, y in line], stroke=colour, stroke_width=2, stroke_linejoin="round")
        for x, y in line if len(line) <= 60 else ():
            picture.circle(*axes.at(x, y), 2.6, fill=colour, title=f"{name}, {x_label} {x}: {y:.4g}")
        if places:
            x0, y0 = places[i]
            picture.rect(x0, y0 - 8, 9, 9, fill=colour)
            picture.text(x0 + 13, y0, name, size=11, fill=INK)
    return picture


class _Axes:
    """Where numbers are in a picture: steps from left to right, values upwards with some room around them."""

    def __init__(self, points: list[tuple[int, float]], top: float, height: float) -> None:
        self._top, self._height = top, height
        xs, ys = [x for x, _ in points], [y for _, y in points]
        low, high = min(ys), max(ys)
        pad = (high - low) * 0.06 or max(abs(high) * 0.1, 0.5)
        self._low, self._high = (max(low - pad, 0.0) if low >= 0 else low - pad), high + pad
        self._first, self._last = min(xs), max(max(xs), min(xs) + 1)

    def at(self, x: float, y: float) -> tuple[float, float]:
        across, up = (x - self._first) / (self._last - self._first), (y - self._low) / (self._high - self._low)
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            self._height - _BOTTOM - up * (self._height - self._top - _BOTTOM),
        )

    def draw(self, picture: Picture, x_label: str) -> None:
        heights = ticks(self._low, self._high, 4)
        for y, label in zip(heights, tick_labels(heights), strict=True):
            _, py = self.at(self._first, y)
            picture.line(_LEFT, py, _WIDTH - _RIGHT, py, stroke=GRID)
            picture.text(_LEFT - 8, py + 4, label, anchor="end", size=11 if len(label) < 7 else 9, fill=FAINT)
        for x in ticks(self._first, self._last, min(8, self._last - self._first)):
            if x == int(x):
                px, _ = self.at(x, self._low)
                picture.text(px, self._height - _BOTTOM + 16, f"{int(x)}", anchor="middle", size=11, fill=FAINT)
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        picture.text(middle, self._height - 8, x_label, anchor="middle", size=11, fill=FAINT)


def _legend(names: list[str], left: float, right: float) -> list[tuple[float, float]]:
    """Where the names stand, in as many rows as they need; one name needs none."""
    places = []
    x, y = left, 37.0
    for name in names if len(names) > 1 else ():
        if x > left and x + 13 + 7 * len(name) > right:
            x, y = left, y + 16
        places.append((x, y))
        x += 22 + 7 * len(name)
    return places


def tick_labels(numbers: Sequence[float]) -> list[str]:
    """Numbers on an axis, with as many digits as it takes to tell them apart."""
    for n_digits in range(3, 17):
        labels = [f"{number:.{n_digits}g}" for number in numbers]
        if len(set(labels)) == len(set(numbers)):
            break
    return labels


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """A curve in one line of text: the lowest value is the lowest bar; x stands for what is not finite.

    >>> ex.inspect.sparkline([1.0, 0.5, 0.0])
    '█▅▁'
    """
    if len(values) > width:
        edges = [round(i * len(values) / width) for i in range(width + 1)]
        values = [_mean(values[a : max(b, a + 1)]) for a, b in pairwise(edges)]
    finite = [v for v in values if math.isfinite(v)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    span = (high - low) or 1.0
    return "".join(_BARS[1 + round((v - low) / span * 7)] if math.isfinite(v) else "x" for v in values)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
