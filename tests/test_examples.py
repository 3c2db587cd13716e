"""Each example runs as it is, stays short, and has learned what it says it learns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("*.py"))
# What the last figures that an example prints must be: a pattern with numbers in it, and a bound for each, from below
# (positive) or from above (negative).
LEARNED = {
    "char_rnn": (r"(\d+) of 100 sentences", [80]),
    "early_exit": (r"right for (\d+) of 200 sequences, after (\d+) of[^;]*?in (\d+) of them", [180, -40, 200]),
    "gpt_names": (r"(\d+) of 100 new names", [80]),
    "growing_network": (r"accuracy ([\d.]+)% on 400 new points, with (\d+) parameters", [90, 22]),
    "many_machines": (r"right for (\d+) of 200 new trees", [160]),
    "message_passing": (r"right for ([\d.]+)% of the nodes", [90]),
    "reading_sentences": (r"right for (\d+) of 200 new sentences", [180]),
    "reinforce": (r"catches (\d+)% of 200 new balls", [80]),
    "served_reviews": (r"right for (\d+) of 200 new reviews", [180]),
    "shift_reduce": (r"(\d+) of 200 held-out expressions are parsed right", [180]),
    "tree_lstm": (r"off by ([\d.]+) on average", [-2.0]),
    "watched_reader": (r"right for (\d+) of 200 new sequences", [180]),
    "vae": (r"come back within ([\d.]+) on average[^;]*;\n(\d+) of 100 made pictures are discs", [-0.03, 80]),
}


def test_every_example_has_a_figure_to_reach():
    assert {path.stem for path in FILES} == set(LEARNED)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_an_example_is_one_short_file_that_says_what_it_does(path):
    text = path.read_text()
    assert len(text.splitlines()) < 120
    assert text.startswith('"""')
    assert f"python examples/{path.name}" in text


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_an_example_runs_and_learns(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    pattern, bounds = LEARNED[path.stem]
    figures = [float(figure) for figure in re.search(pattern, done.stdout).groups()]
    for figure, bound in zip(figures, bounds, strict=True):
        assert figure >= bound if bound > 0 else figure <= -bound, done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
