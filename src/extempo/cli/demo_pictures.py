"""The pictures of `extempo demo`: padding beside no padding, the graph of each length, states step by step."""

from __future__ import annotations

from extempo.inspect.svg import COLOURS, FAINT, GRID, INK, Picture

_CELL, _MARGIN = 34, 16
_WORD, _EMPTY = "#dbe9f6", "#f3f3f3"


def paddings(padded: list[list[int]], ragged: list[list[int]], wasted: str) -> Picture:
    """Cells of a padded batch and of a ragged one."""
    width = max(len(padded[0]) * _CELL, 230)  # wide enough for the words above
    picture = Picture(2 * width + 3 * _MARGIN, len(padded) * _CELL + 2 * _MARGIN + 44, "Padded beside ragged")
    picture.text(_MARGIN, 26, "The first batch, both ways", size=14, font_weight=600)
    both = (_MARGIN, f"padded: {wasted} wasted", padded), (width + 2 * _MARGIN, "ragged: no cell wasted", ragged)
    for left, name, rows in both:
        picture.text(left, 48, name, size=12, fill=FAINT)
        for i, row in enumerate(rows):
            for j, word in enumerate(row):
                x, y = left + j * _CELL, 58 + i * _CELL
                fill, dashes = (_WORD, "none") if word else (_EMPTY, "3 3")
                place = (x + 1, y + 1, _CELL - 3, _CELL - 3)
                picture.rect(*place, rx=3, fill=fill, stroke="#b5b5b5", stroke_dasharray=dashes)
                middle = (x + _CELL / 2 - 0.5, y + _CELL / 2 + 4)
                picture.text(*middle, str(word or "0"), anchor="middle", fill=INK if word else FAINT)
    return picture


def chains(sequences: list[list[int]], n_nodes: dict[int, int]) -> Picture:
    """One line of cells for each sequence: the graph, module by module."""
    longest = max(map(len, sequences))
    step, height = 96, 76
    picture = Picture(_MARGIN * 2 + 52 + (longest + 1) * step + 70, 40 + len(sequences) * height, "Graphs by length")
    picture.text(_MARGIN, 26, "The graph that each length built, module by module", size=14, font_weight=600)
    for i, words in enumerate(sequences):
        y = 48 + i * height
        picture.text(_MARGIN, y + 19, "zeros", size=11, fill=FAINT)
        for j, word in enumerate(words):
            x = _MARGIN + 52 + j * step
            picture.line(x - 20, y + 15, x, y + 15, stroke="#8a8a8a")
            _box(picture, x, y, "cell", COLOURS[0])
            picture.line(x + 38, y + 30, x + 38, y + 40, stroke="#8a8a8a")
            picture.text(x + 38, y + 51, f"embed({word})", anchor="middle", size=11, fill=INK)
        x = _MARGIN + 52 + len(words) * step
        picture.line(x - 20, y + 15, x, y + 15, stroke="#8a8a8a")
        _box(picture, x, y, "score", COLOURS[2])
        picture.text(x + 86, y + 19, f"{n_nodes[len(words)]} nodes", size=11, fill=FAINT)
    return picture


def _box(picture: Picture, x: float, y: float, name: str, colour: str) -> None:
    picture.rect(x, y, 76, 30, rx=4, fill="#ffffff", stroke=colour, stroke_width=1.5)
    picture.text(x + 38, y + 19, name, anchor="middle")


def states(words: list[int], values: list[list[float]]) -> Picture:
    """A row of coloured cells for the state after each word: blue below zero, orange above."""
    size, left, top = 26, 70, 44
    n_units = len(values[0])
    picture = Picture(left + n_units * size + _MARGIN, top + len(words) * size + 40, "State by step")
    picture.text(_MARGIN, 24, "State of the RNN after each word", size=14, font_weight=600)
    for i, (word, state) in enumerate(zip(words, values, strict=True)):
        picture.text(left - 12, top + i * size + 17, f"word {word}", anchor="end", fill=INK)
        for j, value in enumerate(state):
            colour = COLOURS[1] if value > 0 else COLOURS[0]
            place = (left + j * size, top + i * size, size - 2, size - 2)
            picture.rect(*place, fill="#ffffff", stroke=GRID)
            picture.rect(*place, fill=colour, fill_opacity=min(abs(value), 1.0), title=f"unit {j}: {value:.3f}")
    below = top + len(words) * size + 18
    for x, colour, text in ((left, COLOURS[0], "-1"), (left + 60, COLOURS[1], "+1")):
        picture.rect(x, below - 9, 11, 11, fill=colour)
        picture.text(x + 16, below, text, size=11, fill=FAINT)
    picture.text(left + 120, below, "white is 0; one column for each unit", size=11, fill=FAINT)
    return picture
