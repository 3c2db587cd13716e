"""How long a graph of 2,000 ops takes to capture, lay out, write, and open in a browser with everything unfolded.

    python scripts/time_drawing.py

Opening is measured in Chromium, headless, where there is one: from the start of the page to the picture (`data-ready`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import extempo as ex
from extempo import nn
from extempo.inspect.drawing.layout import lay_out

N_BLOCKS, N_STEPS, SIZE, N_RUNS = 100, 60, 8, 3
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--window-size=1280,800", "--dump-dom"),
)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(SIZE)
        self.wide, self.narrow = nn.Linear(SIZE, 2 * SIZE), nn.Linear(2 * SIZE, SIZE)

    def forward(self, x: ex.Tensor) -> ex.Tensor:
        gate = self.wide(self.norm(x))
        return x + self.narrow((gate.tanh() * gate.sigmoid() + gate).relu()) * 0.5


class Net(nn.Module):
    """Blocks in a row, then a recurrent cell over the rows: long chains, shared weights."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(N_BLOCKS)])
        self.cell = nn.GRUCell(SIZE, SIZE)

    def forward(self, x: ex.Tensor) -> ex.Tensor:
        for block in self.blocks:
            x = block(x)
        state = ex.zeros(SIZE)
        for row in x:
            state = self.cell(row, state)
        return state


def opened(page: Path) -> float | None:
    """Seconds until a page shows its graph; None without a browser."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        return None
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *_FLAGS, f"--user-data-dir={profile}", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'data-ready="(\d+)"', done.stdout)
    return int(found[1]) / 1000 if found else None


def main() -> None:
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(N_RUNS):
            marks = [time.perf_counter()]
            drawing = ex.inspect.draw(Net(), ex.ones(N_STEPS, SIZE)).unfold().unroll()
            marks.append(time.perf_counter())
            lay_out(drawing.view)
            marks.append(time.perf_counter())
            page = drawing.save(Path(folder) / "graph.html")
            marks.append(time.perf_counter())
            for name, a, b in zip(("capture", "layout in Python", "write the page"), marks, marks[1:], strict=False):
                times.setdefault(name, []).append(b - a)
            seconds = opened(page)
            if seconds is not None:
                times.setdefault("open in the browser", []).append(seconds)
        n_ops = sum(1 for _ in drawing.diagram.ops())
    print(f"{n_ops:,} ops, {len(drawing.view.boxes):,} boxes; best of {N_RUNS}")
    for name, found in times.items():
        print(f"{name:20} {min(found):6.2f} s")


if __name__ == "__main__":
    main()
