"""The timeline of memory as a picture: what was alive over time, a band for each of the lines that held most."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..inspect.svg import COLOURS, FAINT, GRID, INK, Picture, ticks
from ..inspect.tables import bytes_text

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 320, 70, 16, 40, 34
_MOST_BANDS = len(COLOURS) - 1
_MOST_POINTS = 600  # across; a picture is not wider
_REST = "all others"
_REST_COLOUR = "#b8bec8"


def timeline_picture(
    changes: Sequence[tuple[float, int, bool]], allocations: Sequence[tuple[str, int]], title: str
) -> Picture:
    """`changes`: (second, place of the allocation, whether it came), in order; `allocations`: (name, bytes)."""
    began = changes[0][0] if changes else 0.0
    changes = [(seconds - began, place, is_new) for seconds, place, is_new in changes]
    peaks, names = _largest(changes, allocations)
    picture = Picture(_WIDTH, _HEIGHT + 16 * len(names), "memory over time")
    picture.text(_LEFT, 20, title if len(title) <= 96 else title[:95] + "…", size=12, font_weight=600)
    if not changes or not peaks:
        picture.text(_WIDTH / 2, _HEIGHT / 2, "nothing was allocated", anchor="middle", fill=FAINT)
        return picture
    rows = _heights(changes, allocations, names)
    highest = max(sum(row) for _, row in rows) or 1
    last = max(rows[-1][0], 1e-9)

    def x_of(seconds: float) -> float:
        return _LEFT + seconds / last * (_WIDTH - _LEFT - _RIGHT)

    def y_of(n_bytes: float) -> float:
        return _HEIGHT - _BOTTOM - n_bytes / (1.05 * highest) * (_HEIGHT - _TOP - _BOTTOM)

    unit = 1024 ** int(math.log(highest, 1024)) if highest >= 1024 else 1
    for n in (x * unit for x in ticks(0, highest / unit, 4)):
        picture.line(_LEFT, y_of(n), _WIDTH - _RIGHT, y_of(n), stroke=GRID)
        picture.text(_LEFT - 8, y_of(n) + 4, bytes_text(n), anchor="end", size=11, fill=FAINT)
    for i, name in enumerate(names):
        colour = _REST_COLOUR if name == _REST else COLOURS[i % len(COLOURS)]
        for k, (seconds, row) in enumerate(rows):
            if row[i]:
                until = rows[k + 1][0] if k + 1 < len(rows) else last
                below, above = y_of(sum(row[:i])), y_of(sum(row[: i + 1]))
                width = max(x_of(until) - x_of(seconds), 0.6)
                picture.rect(x_of(seconds), above, width, below - above, fill=colour, shape_rendering="crispEdges")
        y = _HEIGHT + 16 * i
        picture.rect(_LEFT, y - 9, 10, 10, fill=colour)
        picture.text(_LEFT + 16, y, f"{name}, up to {bytes_text(peaks[name])}", size=11, fill=INK)
    for seconds in ticks(0, last, 6):
        text = f"{seconds * 1e3:.4g} ms"
        picture.text(x_of(seconds), _HEIGHT - _BOTTOM + 16, text, anchor="middle", size=11, fill=FAINT)
    return picture


def _largest(
    changes: Sequence[tuple[float, int, bool]], allocations: Sequence[tuple[str, int]]
) -> tuple[dict[str, int], list[str]]:
    """The most that each name ever held, and the names that get a band of their own."""
    now: dict[str, int] = {}
    peaks: dict[str, int] = {}
    for _, place, is_new in changes:
        name, n_bytes = allocations[place]
        now[name] = now.get(name, 0) + (n_bytes if is_new else -n_bytes)
        peaks[name] = max(peaks.get(name, 0), now[name])
    names = sorted(peaks, key=lambda name: -peaks[name])
    if len(names) > _MOST_BANDS:
        rest = names[_MOST_BANDS:]
        peaks[_REST] = sum(peaks[name] for name in rest)
        names = [*names[:_MOST_BANDS], _REST]
    return peaks, names


def _heights(
    changes: Sequence[tuple[float, int, bool]], allocations: Sequence[tuple[str, int]], names: list[str]
) -> list[tuple[float, list[int]]]:
    """At each of at most so many moments what each band holds: the highest of those that fall together."""
    order = {name: i for i, name in enumerate(names)}
    last = max(changes[-1][0], 1e-9)
    row = [0] * len(names)
    rows: list[tuple[float, list[int]]] = []
    for seconds, place, is_new in changes:
        name, n_bytes = allocations[place]
        row[order.get(name, len(names) - 1)] += n_bytes if is_new else -n_bytes
        together = bool(rows) and int(seconds / last * _MOST_POINTS) == int(rows[-1][0] / last * _MOST_POINTS)
        if not together:
            rows.append((seconds, list(row)))
        elif sum(row) > sum(rows[-1][1]):
            rows[-1] = (rows[-1][0], list(row))
    rows.append((last, list(row)))
    return rows
