"""What the documents show runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from extempo.backends.choice import native

ROOT = Path(__file__).parents[1]


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_explanation_from_scratch_runs():
    assert "all checks passed" in run("docs/from_scratch.py")


def test_the_first_example_of_the_readme_runs_as_pasted_and_learns():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    out = run("-c", code)
    assert float(re.search(r"loss ([0-9.]+)", out)[1]) < 0.2
    assert "[0, 1, 1, 0, 1]" in out
    assert "graph(" in out


@pytest.mark.skipif(native() is None, reason="without native code the body of a static function runs at every call")
def test_the_page_on_compiling_runs_as_pasted_and_shows_what_it_prints():
    page = (ROOT / "docs" / "compiling.md").read_text()
    out = run("-c", "\n".join(re.findall(r"```python\n(.*?)```", page, re.S)))
    assert float(re.search(r"loss ([0-9.]+)", out)[1]) < 0.1
    assert "step: 1,000 calls" in out
    assert "encoder learns: True" in out
    refused = re.search(r"\n    (scores: argument words.*?)\n\n", page, re.S)[1]
    assert " ".join(refused.split()) in out
    failed = re.search(r"\n    (embedding: row 10 .*?)\n\n", page, re.S)[1]
    assert failed.replace("\n    ", "\n").replace("train.py", "<string>") in out


def test_the_page_on_batching_runs_as_pasted():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "batching.md").read_text(), re.S)
    out = run("-c", "\n".join(blocks))
    assert float(re.search(r"loss ([0-9.]+)", out)[1]) < 0.2
    assert "5 samples" in out


def test_the_page_on_ragged_tensors_runs_as_pasted():
    page = (ROOT / "docs" / "ragged.md").read_text()
    out = run("-c", "\n".join(re.findall(r"```python\n(.*?)```", page, re.S)))
    assert float(re.search(r"loss ([0-9.]+)", out)[1]) < 0.2
    assert "[[0, 1, 0], [1, 1], [0]]" in out
    shown = re.search(r"\n    ragged\(.*?shape=\(3, \*\)\)", page, re.S)[0]
    assert shown.replace("\n    ", "\n").strip() in out


def test_the_page_on_training_runs_as_pasted():
    page = (ROOT / "docs" / "training.md").read_text()
    out = run("-c", "\n".join(re.findall(r"```python\n(.*?)```", page, re.S)))
    assert "Valid loss fell" in out
    assert "right: 1.0" in out
    assert "suggested learning rate" in out
    assert "same bits: True" in out
    assert "units: 48" in out


def test_the_page_on_looking_inside_runs_as_pasted_and_shows_what_it_prints():
    page = (ROOT / "docs" / "inspecting.md").read_text()
    out = run("-c", "\n".join(re.findall(r"```python\n(.*?)```", page, re.S)))
    shown = re.search(r"\n    Reader: 6 calls\n(.*?)\n\n", page, re.S)[1]

    def untimed(text: str) -> list[str]:
        return [re.sub(r"[0-9.]+ [mu]?s ", "", " ".join(line.split())) for line in text.splitlines()]

    assert untimed(shown) == untimed(out)[1:8]
    assert "graph(" in out
    assert "█▃▁" in out


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_links_to_files_lead_somewhere(path):
    for link in re.findall(r"\]\(([^)#]+)", path.read_text()):
        if "://" not in link:
            assert (path.parent / link).exists(), f"{path.name} links to {link}, which is not there"
