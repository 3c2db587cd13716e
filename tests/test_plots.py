"""The pictures of the performance page show what stands in its tables."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
TABLES = (ROOT / "docs" / "performance.md").read_text()


@pytest.fixture(scope="module")
def plots() -> Any:
    sys.path.insert(0, str(ROOT))
    yield importlib.import_module("scripts.site.plots")
    sys.path.remove(str(ROOT))


def test_a_step_of_every_workload_has_a_bar_for_extempo_and_one_for_pytorch(plots):
    for name in plots.WORKLOADS:
        labels = [bar.label for bar in plots.steps_of(TABLES, name)]
        assert {"Extempo", "PyTorch"} <= set(labels)


def test_a_bar_is_as_long_as_its_number_says(plots):
    picture = plots.bars("both", [plots.Bar("a", 2.0, "2 ms", "#111"), plots.Bar("b", 1.0, "1 ms", "#222")]).svg()
    first, second = (float(width) for width in re.findall(r'<rect x="200" y="\d+" width="([\d.]+)"', picture))
    assert first == 2 * second


def test_a_peer_that_was_not_measured_has_no_bar(plots):
    table = "<!-- x -->\n| peer | minimum ms | ratio of minima |\n|---|---|---|\n| torch | 2.0 | 1.00 |\n"
    rows = f"{table}| jax.jit scan | 1.0 | 0.50 |\n| dynet | not installed | |\n<!-- end of x -->"
    assert [(bar.label, bar.value) for bar in plots.steps_of(rows, "x")] == [("PyTorch", 2.0), ("JAX jit scan", 1.0)]


def test_every_picture_stands_on_the_page(plots):
    pages = dict(plots.pages())
    text = pages.pop("plots.md")
    assert len(pages) > 20
    for path, picture in pages.items():
        assert f"]({path})" in text
        assert picture.startswith(b"<svg")
