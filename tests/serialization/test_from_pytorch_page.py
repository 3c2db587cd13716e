"""The code on the page for people who come from PyTorch runs, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "from_pytorch.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def needs_torch(block: str) -> bool:
    return "import torch\n" in block


def run(blocks: list[str]) -> None:
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


def test_the_blocks_that_need_no_pytorch_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = [block for block in BLOCKS if not needs_torch(block)]
    assert len(plain) == 4
    run(plain)


@pytest.mark.conformance
def test_the_whole_page_runs_and_finds_no_difference(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch", reason="the page compares with PyTorch: pip install -e '.[conformance]'")
    monkeypatch.chdir(tmp_path)
    run(BLOCKS)
    assert capsys.readouterr().out == "no difference\n"
