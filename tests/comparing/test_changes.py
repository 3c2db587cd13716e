"""An earlier comparison beside a later one."""

from __future__ import annotations

import json

import pytest

import extempo as ex

from .steps import QUICK, batches, training


@pytest.mark.usefixtures("fake_clock")
def test_figures_are_saved_and_compared_with_later_ones(tmp_path, fake_clock):
    _, _, step = training()
    old = ex.compare(step, batches(), **QUICK)
    path = old.save(tmp_path / "old.json")
    assert json.loads(path.read_text())["columns"][0]["training_seconds"] == 8.0
    assert "Still good." in str(old.against(path))
    fake_clock.tick = 2.0
    changes = ex.compare(step, batches(), modes=("eager", "compile"), **QUICK).against(path)
    row = next(r for r in changes.rows() if r["figure"] == "training_seconds")
    assert (row["column"], row["old"], row["new"], row["ratio"]) == ("eager", 8.0, 16.0, 2.0)
    assert "+100%\n" in str(changes)  # every new round took longer than every old one
    assert "static is not there any more." in str(changes)
    assert max(map(len, str(changes).splitlines())) <= 80
    assert "<table>" in changes._repr_html_()
    assert json.loads(changes.to_json())["changes"]
    saved = json.loads(path.read_text())
    saved["columns"][0] |= {"parameters": 7, "round_seconds": [8.0, 20.0]}
    doubtful = str(ex.compare(step, batches(), modes=("eager", "compile"), **QUICK | {"rounds": 4}).against(saved))
    assert "+100%?" in doubtful
    assert "may be chance" in doubtful
    assert "Unfair: eager: parameters was 7, is 58." in doubtful
    assert "rounds" not in doubtful.replace("old and new rounds", "")
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(ValueError, match="no saved comparison"):
        old.against(other)
