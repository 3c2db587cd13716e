"""The page "Performance in pictures": the tables of docs/performance.md as bars."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scripts.make_pictures import ROOT, WORKLOADS, table_of

from extempo.inspect.svg import COLOURS, FAINT, Picture

BLUE, ORANGE, GREEN, _, _, RED = COLOURS
COLOUR_OF = {"extempo": BLUE, "torch": RED, "jax": ORANGE, "dynet": GREEN}
NAME_OF = {
    "extempo": "Extempo",
    "torch": "PyTorch",
    "torch.compile": "torch.compile",
    "jax.jit": "JAX jit",
    "dynet": "DyNet",
}
WIDTH, LEFT, PITCH = 560, 200, 26


class Bar(NamedTuple):
    label: str
    value: float
    text: str
    colour: str


def bars(title: str, rows: list[Bar]) -> Picture:
    """One bar below the other, as long as its value."""
    picture = Picture(WIDTH, 46 + PITCH * len(rows), title)
    picture.text(16, 26, title, size=16, font_weight="bold")
    longest = max(row.value for row in rows)
    for i, row in enumerate(rows):
        y = 42 + PITCH * i
        length = max((WIDTH - LEFT - 150) * row.value / longest, 1.0)
        picture.text(LEFT - 10, y + 14, row.label, size=13, anchor="end")
        picture.rect(LEFT, y + 2, length, PITCH - 9, fill=row.colour, title=f"{row.label}: {row.text}")
        picture.text(LEFT + length + 8, y + 14, row.text, size=13, fill=FAINT)
    return picture


def _peer(name: str) -> tuple[str, str]:
    """How a peer of the tables is named in a picture, and its colour."""
    known = max((key for key in NAME_OF if name.startswith(key)), key=len, default="")
    shown = f"{NAME_OF[known]}{name.removeprefix(known)}" if known else name
    return shown, COLOUR_OF.get(re.split(r"[ .]", name)[0], FAINT)


def steps_of(page: str, workload: str) -> list[Bar]:
    """What a step takes each peer that was measured."""
    found = []
    for row in table_of(page, workload):
        if re.fullmatch(r"[\d.]+", row["minimum ms"]):
            label, colour = _peer(row["peer"])
            text = f"{row['minimum ms']} ms, {row['ratio of minima']}"
            found.append(Bar(label, float(row["minimum ms"]), text, colour))
    return found


def starts(page: str) -> dict[str, list[Bar]]:
    """Seconds from the start of the process, by workload and number of steps."""
    columns = {"compiled s": ("Extempo", BLUE), "with kernels on disk s": ("Extempo, kernels on disk", BLUE)}
    columns["torch s"] = ("PyTorch", RED)
    return {
        f"{row['workload']}, {int(row['steps']):,} steps": [
            Bar(label, float(row[column]), f"{row[column]} s", colour) for column, (label, colour) in columns.items()
        ]
        for row in table_of(page, "cold")
    }


def memory(page: str) -> dict[str, list[Bar]]:
    """Megabytes of a process that trains, by workload."""
    found: dict[str, list[Bar]] = {}
    for row in table_of(page, "memory"):
        label, colour = _peer(row["peer"])
        rows = found.setdefault(row["workload"], [Bar("PyTorch", float(row["torch MB"]), f"{row['torch MB']} MB", RED)])
        rows.insert(-1, Bar(label, float(row["MB"]), f"{row['MB']} MB", colour))
    return found


def pages() -> Iterator[tuple[str, str | bytes]]:
    page = (ROOT / "docs" / "performance.md").read_text()
    plots = {
        "Time of a training step": {WORKLOADS[name]: steps_of(page, name) for name in WORKLOADS},
        "From the start of the process": starts(page),
        "Memory of a process that trains": memory(page),
    }
    text = [
        "# Performance in pictures\n",
        "The figures of [Performance](performance.md) as bars: the same models, weights and data, on one thread of one",
        "machine. That page says how they were measured, on which machine, and what the number of every row is.\n",
        "![Time of a training step beside PyTorch, JAX and DyNet](pictures/speed.svg)\n",
        "Shorter is better everywhere. The number after a time is its ratio to PyTorch's.\n",
    ]
    for title, drawn in plots.items():
        text.append(f"## {title}\n")
        for name, rows in drawn.items():
            path = f"plots/{re.sub(r'[^a-z0-9]+', '_', f'{title} {name}'.lower())}.svg"
            yield path, bars(name, rows).svg().encode()
            text.append(f"![{title}: {name}]({path})\n")
    yield "plots.md", "\n".join(text)
