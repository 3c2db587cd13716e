"""The page on metrics runs as pasted and shows what it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()


def test_the_page_on_metrics_runs_as_pasted():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.S)), {})
    said = out.getvalue()
    assert "accuracy 0.75\nof both 0.875\n" in said
    ragged, padded = re.findall(r"(?:ragged|padded) ([0-9.]+)", said)
    assert ragged == padded
    shown = re.search(r"\n    (NO: .*?)\n    \.\.\.", PAGE, re.S)[1].replace("\n    ", "\n")
    assert shown in said
