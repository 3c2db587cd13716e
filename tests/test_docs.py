"""What the documents show runs, a page as one program in the order of the page, and prints what they show.

Python stands in blocks fenced as ```python. A ```text block right after one is what it prints: spaces and line breaks
may differ, `...` stands for anything, and a time (`205 us`) for any time.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from extempo.backends.selection import native

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDES = [
    ROOT / "docs" / f"{name}.md"
    for name in (
        "installing",
        "first_steps",
        "training",
        "compiling",
        "batching",
        "ragged",
        "exporting",
        "shipping",
        "inspecting",
        "stepping",
        "blaming",
        "metrics",
        "comparing",
        "debugging",
        "studio",
        "from_pytorch",
        "course",
    )
]
_NEXT_BLOCK = "\x1e"


class Block(NamedTuple):
    language: str
    text: str
    line: int  # of the page
    follows: bool  # nothing but blank lines stands between it and the block before


class Run(NamedTuple):
    """What a page's program has printed, block by block, and the files that it has left."""

    blocks: list[tuple[Block, str]]
    files: dict[str, str]

    @property
    def printed(self) -> str:
        return "".join(printed for _, printed in self.blocks)


def fenced(page: str) -> list[Block]:
    found, end = [], 0
    for fence in re.finditer(r"^```(\w*)\n(.*?)^```$", page, re.S | re.M):
        follows = bool(found) and not page[end : fence.start()].strip()
        found.append(Block(fence[1], fence[2], page[: fence.start()].count("\n") + 1, follows))
        end = fence.end()
    return found


def paste(code: list[Block]) -> Run:
    """Run blocks as a file of that text; where it says which block is next, there is a blank line in a reader's."""
    program = f"print({_NEXT_BLOCK!r})\n".join(block.text for block in code)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder).resolve() / "train.py"
        script.write_text(program)
        command = [sys.executable, script.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, done.stderr
        left = [path for path in script.parent.iterdir() if path.suffix in (".json", ".svg")]
        made = {path.name: path.read_text().replace(str(script), script.name) for path in left}
    printed = done.stdout.replace(str(script), script.name)
    return Run(list(zip(code, printed.split(f"{_NEXT_BLOCK}\n"), strict=True)), made)


def pattern(shown: str) -> re.Pattern[str]:
    """What matches output that is shown like this."""
    shown = re.sub(r"\b[0-9.]+ [mu]?s\b", "TIME", " ".join(shown.split()))
    words = {"...": ".*?", "TIME": r"[0-9.]+ [mu]?s"}
    return re.compile(r"\s+".join(words.get(word, re.escape(word)) for word in shown.split()), re.S)


@functools.cache
def run(name: str) -> Run:
    """Run a page; what it shows is compared with what it prints."""
    blocks = fenced((ROOT / name).read_text())
    ran = paste([block for block in blocks if block.language == "python"])
    printed = dict(ran.blocks)
    for before, block in itertools.pairwise(blocks):
        if block.language == "text" and block.follows and before in printed:
            found = pattern(block.text).search(printed[before])
            assert found, f"{name}:{block.line} shows other than\n{printed[before]}"
    return ran


# ---- the readme


def test_the_readme_runs_as_pasted_and_shows_what_it_prints():
    looped, batched, compiled = (float(loss) for loss in re.findall(r"loss ([0-9.]+)", run("README.md").printed))
    assert 0.2 > looped > batched == compiled  # one epoch later; the same weights twice


def test_the_readme_is_short_and_its_lines_fit_a_terminal():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) < 150
    assert max(map(len, lines)) <= 100


def test_the_project_has_one_address():
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert all(url.startswith(urls["Homepage"]) for url in urls.values())
    cited = (ROOT / "CITATION.cff").read_text()
    assert f'url: "{urls["Homepage"]}"' in cited
    assert f'repository-code: "{urls["Source"]}"' in cited


def test_the_pictures_of_the_readme_are_those_that_the_script_draws():
    command = [sys.executable, "scripts/make_pictures.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_every_block_of_the_readme_says_what_it_is():
    page = (ROOT / "README.md").read_text()
    assert {block.language for block in fenced(page)} == {"python", "sh", "text"}
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.S | re.M)
    assert not re.findall(r"\n\n    .*", prose)  # code that nobody would run


def test_output_that_differs_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint('1', 2)\n```\n\n```text\n1\n ...\n```\n")
    assert run(str(page)).printed == "1 2\n"
    page = tmp_path / "wrong.md"
    page.write_text("```python\nprint('1', 2)\n```\n\n```text\n1 3\n```\n")
    with pytest.raises(AssertionError, match=r"wrong.md:5 shows other than\s+1 2"):
        run(str(page))


def test_a_block_sees_what_those_before_it_have_made(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\nand\n```python\nraise ValueError(x)\n```\n")
    with pytest.raises(AssertionError, match=r'train.py", line 3(.|\n)*ValueError: 1'):
        run(str(page))


# ---- pages


def test_the_page_on_architecture_fits_three_screens_and_names_every_room_and_only_files_that_exist():
    page, package = (ROOT / "docs" / "architecture.md").read_text(), ROOT / "src" / "extempo"
    assert len(page.splitlines()) <= 180
    rooms = {path.parent.name for path in package.glob("*/__init__.py")} - {"cpu", "cuda"}  # facades
    assert [room for room in sorted(rooms) if not re.search(rf"\b{room}\b", page)] == []
    paths = [path.relative_to(package).as_posix() for path in package.rglob("*.py")]
    named = re.findall(r"`([a-z_/]+\.py)`", page)
    assert [name for name in named if not name.startswith("tests/") and not any(p.endswith(name) for p in paths)] == []


def test_the_explanation_from_scratch_runs():
    command = [sys.executable, "docs/from_scratch.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "all checks passed" in done.stdout


@pytest.mark.skipif(native() is None, reason="without native code the body of a static function runs at every call")
def test_the_page_on_compiling_runs_as_pasted_and_shows_what_it_prints():
    out = run("docs/compiling.md").printed
    assert float(re.search(r"loss ([0-9.]+)", out)[1]) < 0.1
    assert "step: 1,000 calls" in out
    assert "encoder learns: True" in out


def test_the_page_on_installing_runs_as_pasted_and_shows_what_it_prints():
    assert run("docs/installing.md").printed == "tensor([2., 4.])\n"


def test_the_first_steps_run_as_pasted_and_show_what_they_print():
    assert run("docs/first_steps.md").printed.endswith("True\n")


def test_the_page_on_many_machines_runs_as_pasted():
    assert run("docs/distributed.md").printed == "7.0\n"


def test_the_page_on_batching_runs_as_pasted_and_shows_what_it_prints():
    out = run("docs/batching.md").printed
    assert float(re.search(r"loss ([0-9.]+)", out)[1]) < 0.2
    assert "5 samples" in out


def test_the_page_on_ragged_tensors_runs_as_pasted_and_shows_what_it_prints():
    out = run("docs/ragged.md").printed
    assert float(re.search(r"loss ([0-9.]+)", out)[1]) < 0.2
    assert "[[0, 1, 0], [1, 1], [0]]" in out


def test_the_page_on_export_runs_as_pasted_and_shows_what_it_prints():
    assert "False" not in run("docs/exporting.md").printed


def test_the_page_on_training_runs_as_pasted():
    out = run("docs/training.md").printed
    assert "Valid loss fell" in out
    assert "right: 1.0" in out
    assert "suggested learning rate" in out
    assert "same bits: True" in out
    assert "units: 48" in out


def test_the_page_on_metrics_runs_as_pasted_and_shows_what_it_prints():
    out = run("docs/metrics.md").printed
    assert "accuracy 0.75\nof both 0.875\n" in out
    ragged, padded = re.findall(r"(?:ragged|padded) ([0-9.]+)", out)
    assert ragged == padded


def test_the_page_on_comparing_runs_as_pasted():
    ran = run("docs/comparing.md")
    assert "static takes 15 of 20 batches" in ran.printed
    assert "Verdict: " in ran.printed
    assert json.loads(ran.files["figures.json"])["steps"] == 20


def test_the_page_on_looking_inside_runs_as_pasted_and_shows_what_it_prints():
    out = run("docs/inspecting.md").printed
    assert "embed, cell x 10" in out
    assert "█▃▁" in out


def test_the_page_on_stepping_runs_as_pasted_and_shows_what_it_prints():
    out = run("docs/stepping.md").printed
    assert out.count("(Pdb)") == 7
    assert "every bit as recorded" in out


def test_the_four_hunts_run_as_pasted_and_draw_the_pictures_of_the_page():
    drawn = {name: text for name, text in run("docs/debugging.md").files.items() if name.endswith(".svg")}
    shown = {path.name: path.read_text() for path in (ROOT / "docs" / "pictures" / "debugging").glob("*.svg")}
    assert drawn.keys() == shown.keys(), "run python -m scripts.make_debugging_pictures"
    without_times = ("reader.svg", "deaf.svg")
    assert [drawn[name] for name in without_times] == [shown[name] for name in without_times]


def test_the_page_on_blame_runs_as_pasted_and_shows_what_it_prints():
    assert "of 40 iterations" in run("docs/blaming.md").printed


@pytest.mark.skipif(native() is None, reason="its numbers of calls are those of plans")
def test_the_page_on_profiling_runs_as_pasted_and_shows_what_it_prints():
    ran = run("docs/profiling.md")
    assert "train.py:14 h, _ = self.attention" in ran.printed
    assert "by the clock" in ran.printed
    assert json.loads(ran.files["trace.json"])["traceEvents"]


def test_the_page_on_the_course_runs_as_pasted_and_shows_what_it_prints():
    assert "False n == 2" in run("docs/course.md").printed


def test_what_needs_no_pytorch_on_the_page_for_its_users_runs():
    code = [b for b in fenced((ROOT / "docs/from_pytorch.md").read_text()) if b.language == "python"]
    plain = [block for block in code if "import torch\n" not in block.text]
    assert len(plain) == 6
    paste(plain)


@pytest.mark.conformance
def test_the_page_for_users_of_pytorch_finds_no_difference():
    pytest.importorskip("torch", reason="the page compares with PyTorch: pip install -e '.[conformance]'")
    assert run("docs/from_pytorch.md").printed == "no difference\n"


@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.name)
def test_a_guide_opens_with_what_it_is_for_and_ends_with_where_to_read_on(path):
    title, opening, first, *_ = path.read_text().split("\n\n")
    assert title.startswith("# ")
    assert opening.startswith("For ")
    assert first.startswith("```")
    assert "\n## Read on\n" in path.read_text()


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_links_to_files_lead_somewhere(path):
    for link in re.findall(r"\]\(([^)#]+)", path.read_text()):
        if "://" not in link:
            assert (path.parent / link).exists(), f"{path.name} links to {link}, which is not there"
