"""A comparison as text, HTML and JSON."""

from __future__ import annotations

import pytest

import extempo as ex

from .steps import QUICK, batches, training


@pytest.mark.usefixtures("fake_clock")
def test_the_report_fits_80_columns_and_opens_with_time_memory_and_flexibility():
    model, _, step = training()

    def metric():
        with ex.no_grad():
            return sum((model(x).argmax(1) == y).float().mean().item() for x, y in batches())

    found = ex.compare(step, batches((6, 3, 6, 5)), metric=metric, **QUICK)
    text = str(found)
    assert max(map(len, text.splitlines())) <= 80
    titles = [line.split("  ")[0] for line in text.splitlines()]
    assert titles[3:6] == ["Training time (s)", "Memory (MB)", "Flexibility"]
    for title in ("iteration, median", "graph building", "warm-up, 8 steps", "loss, same time", "metric, 8 steps"):
        assert title in titles
    assert found["eager"].metric_same_steps == found["compile"].metric_same_steps > 0
    html = found._repr_html_()
    assert "<table>" in html
    assert f"Verdict: {found.verdict.word}" in html
