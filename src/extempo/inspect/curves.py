"""Lines over steps or epochs: as SVG, and as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from .svg import COLOURS, FAINT, GRID, INK, Picture, ticks

_BARS = " ▁▂▃▄▅▆▇█"


def curve(series: Mapping[str, Sequence[float]], title: str = "", x_label: str = "epoch", start: int = 1) -> Picture:
    """A line for each series over 1, 2, 3, ...; what is not finite is left out.

    >>> str(ex.inspect.curve({"loss": [2.0, 1.0, 0.5]}, "Loss")).startswith("<svg")
    True
    """
    width, left, right, bottom = 480, 58, 16, 42
    places = _legend(list(series), left + 8, width - right)
    top = max((y for _, y in places), default=37) + 7
    height = 216 + top
    title = title or ", ".join(series)
    picture = Picture(width, height, title)
    picture.text(left, 20, title if len(title) <= 44 else title[:43] + "…", size=14, font_weight=600)
    points = {
        name: [(start + i, v) for i, v in enumerate(values) if math.isfinite(v)] for name, values in series.items()
    }
    every = [point for line in points.values() for point in line]
    if not every:
        picture.text(width / 2, height / 2, "nothing to show", anchor="middle", fill=FAINT)
        return picture
    xs, ys = [x for x, _ in every], [y for _, y in every]
    low, high = min(ys), max(ys)
    pad = (high - low) * 0.06 or max(abs(high) * 0.1, 0.5)
    low, high = (max(low - pad, 0.0) if low >= 0 else low - pad), high + pad
    first, last = min(xs), max(max(xs), min(xs) + 1)

    def at(x: float, y: float) -> tuple[float, float]:
        across, up = (x - first) / (last - first), (y - low) / (high - low)
        return left + across * (width - left - right), height - bottom - up * (height - top - bottom)

    heights = ticks(low, high, 4)
    for y, label in zip(heights, tick_labels(heights), strict=True):
        _, py = at(first, y)
        picture.line(left, py, width - right, py, stroke=GRID)
        picture.text(left - 8, py + 4, label, anchor="end", size=11 if len(label) < 7 else 9, fill=FAINT)
    for x in ticks(first, last, min(8, last - first)):
        if x == int(x):
            px, _ = at(x, low)
            picture.text(px, height - bottom + 16, f"{int(x)}", anchor="middle", size=11, fill=FAINT)
    picture.text((left + width - right) / 2, height - 8, x_label, anchor="middle", size=11, fill=FAINT)
    for i, (name, line) in enumerate(points.items()):
        colour = COLOURS[i % len(COLOURS)]
        picture.path([at(x, y) for x, y in line], stroke=colour, stroke_width=2, stroke_linejoin="round")
        for x, y in line if len(line) <= 60 else ():
            picture.circle(*at(x, y), 2.6, fill=colour, title=f"{name}, {x_label} {x}: {y:.4g}")
        if places:
            x0, y0 = places[i]
            picture.rect(x0, y0 - 8, 9, 9, fill=colour)
            picture.text(x0 + 13, y0, name, size=11, fill=INK)
    return picture


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
    '█▄▁'
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
