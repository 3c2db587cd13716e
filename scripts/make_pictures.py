"""Draw the pictures of the README: `python scripts/make_pictures.py`, or with `--check` say whether they are current.

- docs/pictures/speed.svg: time beside PyTorch, JAX and DyNet, from the tables of docs/performance.md
- docs/pictures/graphs.svg: the graphs that one model draws for inputs of different shape, by running it
- docs/pictures/{tests,python,licence}.svg: badges, from pyproject.toml, and how many tests there are at least
"""

from __future__ import annotations

import math
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import extempo as ex
from extempo import nn
from extempo.inspect.svg import COLOURS, FAINT, GRID, INK, Picture

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
BLUE, ORANGE, GREEN, VIOLET = COLOURS[:4]
N_TESTS = 17_000  # rounded down; tests/test_selections.py counts them


# Speed


WORKLOADS = {  # as docs/performance.md names them: as the plot does
    "tree_lstm": "Tree-LSTM, recursive",
    "ragged_batch": "RNN, sequences of any length",
    "spinn": "parser that branches on its predictions",
    "reinforce": "REINFORCE, episodes of any length",
    "mlp_small": "small MLP",
    "rnn_python_loop": "RNN, a Python loop",
    "early_exit": "early exit: an if on a value",
    "elementwise_chain": "elementwise chain",
    "conv_small": "small CNN",
    "transformer_small": "small transformer",
    "mlp_large": "large MLP",
}
PEERS = {"extempo": ("Extempo", BLUE), "dynet": ("DyNet", GREEN), "jax": ("JAX jit", ORANGE)}


def table_of(page: str, name: str) -> list[dict[str, str]]:
    """The rows of the first table of a section of docs/performance.md, by the names of their columns."""
    section = page.split(f"<!-- {name} -->")[1].split(f"<!-- end of {name} -->")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return [dict(zip(lines[0], cells, strict=True)) for cells in lines[2:] if len(cells) == len(lines[0])]


def rows_of(page: str, workload: str) -> Iterator[tuple[str, float]]:
    """(peer, time relative to PyTorch's) of each row of a workload's table."""
    for row in table_of(page, workload):
        if re.fullmatch(r"[0-9.]+", row.get("ratio of minima", "")):
            yield row["peer"], float(row["ratio of minima"])


def best_of(page: str, workload: str) -> dict[str, float]:
    """The quickest way of each library to run a workload."""
    found: dict[str, float] = {}
    for peer, ratio in rows_of(page, workload):
        library = re.split(r"[ .]", peer)[0]
        found[library] = min(ratio, found.get(library, math.inf))
    return found


def speed(page: str) -> Picture:
    left, width, top, pitch = 290, 480, 74, 26
    picture = Picture(left + width + 40, top + pitch * len(WORKLOADS) + 46, "Training time relative to PyTorch eager")
    low, high = math.log10(0.01), math.log10(20)

    def x_of(ratio: float) -> float:
        return left + width * (math.log10(ratio) - low) / (high - low)

    bottom = top + pitch * len(WORKLOADS)
    picture.text(16, 26, "Time of a training step, PyTorch eager = 1", size=16, font_weight="bold")
    for i, (name, colour) in enumerate(PEERS.values()):
        picture.circle(left + 6 + 100 * i, 46, 5, fill=colour)
        picture.text(left + 16 + 100 * i, 50, name, size=13)
    for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20):
        picture.line(x_of(tick), top - 10, x_of(tick), bottom, stroke=INK if tick == 1 else GRID)
        picture.text(x_of(tick), bottom + 18, f"{tick:g}", size=12, anchor="middle", fill=FAINT)
    picture.text(x_of(0.1), bottom + 38, "quicker than PyTorch", size=12, anchor="middle", fill=FAINT)
    picture.text(x_of(4.5), bottom + 38, "slower", size=12, anchor="middle", fill=FAINT)
    for i, (workload, label) in enumerate(WORKLOADS.items()):
        y = top + pitch * i + 8
        ratios = best_of(page, workload)
        picture.text(left - 14, y + 4, label, size=13, anchor="end")
        picture.line(x_of(ratios["extempo"]), y, x_of(1), y, stroke=BLUE, stroke_width=2, stroke_opacity=0.35)
        for peer in ("jax", "dynet", "extempo"):
            if peer in ratios:
                name, colour = PEERS[peer]
                picture.circle(x_of(ratios[peer]), y, 5, fill=colour, title=f"{name} on {label}: {ratios[peer]:g}")
    return picture


# Graphs


class Reader(nn.Module):
    """A sentence read word by word: the same cell, as often as there are words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 8)
        self.cell = nn.RNNCell(8, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, words: list[int]) -> ex.Tensor:
        h = ex.zeros(8)
        for word in words:
            h = self.cell(self.embed(ex.tensor(word)), h)
        return self.out(h)


def calls_of(model: nn.Module, words: list[int]) -> list[str]:
    """The names of the layers that ran, in order, as hooks on them saw it."""
    seen: list[str] = []
    hooks = [
        layer.register_forward_pre_hook(lambda layer, inputs, name=name: seen.append(name))
        for name, layer in model.named_children()
    ]
    model(words)
    for hook in hooks:
        hook.remove()
    return seen


def graphs() -> Picture:
    sentences = [("good", [1]), ("not so good", [2, 3, 1]), ("I did not see this coming", [4, 5, 2, 6, 7, 8])]
    pitch, gap = 74, 60
    widths = [pitch * len(words) for _, words in sentences]
    picture = Picture(sum(widths) + gap * 2 + 22, 250, "One model, three inputs, three graphs")
    picture.text(16, 26, "One model, written as a loop: each input draws its own graph", size=16, font_weight="bold")
    model, left = Reader(), 20.0
    for (sentence, words), width in zip(sentences, widths, strict=True):
        _draw_calls(picture, left, sentence.split(), calls_of(model, words))
        left += width + gap
    return picture


def _draw_calls(picture: Picture, left: float, words: list[str], calls: list[str]) -> None:
    """Columns of word, embed, cell, and at the end the class, from the calls that really ran."""
    pitch, high, middle, low, bottom = 74, 84, 142, 200, 232
    column, last = -1, None
    for call in calls:
        if call == "embed":
            column += 1
            _arrow(picture, left + pitch * column + 28, bottom - 14, left + pitch * column + 28, low + 2)
            picture.text(left + pitch * column + 28, bottom, words[column], size=13, anchor="middle")
            _box(picture, left + pitch * column, low - 28, "embed", GREEN)
        elif call == "cell":
            _arrow(picture, left + pitch * column + 28, low - 28, left + pitch * column + 28, middle + 2)
            _box(picture, left + pitch * column, middle - 28, "cell", BLUE)
            if last == "cell":
                _arrow(picture, left + pitch * column - 18, middle - 14, left + pitch * column, middle - 14)
        else:
            _arrow(picture, left + pitch * column + 28, middle - 28, left + pitch * column + 28, high + 2)
            _box(picture, left + pitch * column, high - 28, "out", VIOLET)
        if call != "embed":
            last = call


def _box(picture: Picture, x: float, y: float, label: str, colour: str) -> None:
    picture.rect(x, y, 56, 28, rx=5, fill=colour, fill_opacity=0.14, stroke=colour)
    picture.text(x + 28, y + 19, label, size=13, anchor="middle")


def _arrow(picture: Picture, x1: float, y1: float, x2: float, y2: float) -> None:
    """A line with a head, across or upwards."""
    picture.line(x1, y1, x2, y2, stroke=FAINT)
    head = [(-5, -3.5), (-5, 3.5)] if y1 == y2 else [(-3.5, 5), (3.5, 5)]
    (ax, ay), (bx, by) = head
    picture.path([(x2 + ax, y2 + ay), (x2, y2), (x2 + bx, y2 + by)], stroke=FAINT)


# Badges


def badge(label: str, value: str, colour: str) -> Picture:
    left, right = 14 + 7 * len(label), 14 + 7 * len(value)
    picture = Picture(left + right, 20, f"{label}: {value}")
    picture.rect(0, 0, left, 20, fill="#555555")
    picture.rect(left, 0, right, 20, fill=colour)
    picture.text(left / 2, 14, label, size=12, anchor="middle", fill="#ffffff")
    picture.text(left + right / 2, 14, value, size=12, anchor="middle", fill="#ffffff")
    return picture


def pictures() -> dict[str, str]:
    """The text of each file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    minors = [name.rsplit(" ", 1)[1] for name in project["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]
    drawn = {
        "speed": speed((ROOT / "docs" / "performance.md").read_text()),
        "graphs": graphs(),
        "tests": badge("tests", f"{N_TESTS:,}+", GREEN),
        "python": badge("python", " | ".join(minors), BLUE),
        "licence": badge("licence", project["license"], GREEN),
    }
    return {f"{name}.svg": f"{picture.svg()}\n" for name, picture in drawn.items()}


def main() -> None:
    drawn = pictures()
    if "--check" in sys.argv:
        stale = [name for name, text in drawn.items() if (PICTURES / name).read_text() != text]
        sys.exit(f"not current: {', '.join(stale)}; run python scripts/make_pictures.py" if stale else 0)
    PICTURES.mkdir(exist_ok=True)
    for name, text in drawn.items():
        (PICTURES / name).write_text(text)


if __name__ == "__main__":
    main()
