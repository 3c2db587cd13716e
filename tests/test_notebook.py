"""The notebook runs from top to bottom and holds the outputs of such a run, every report has its form for Jupyter, bars
move in place, and the stop button leaves model and optimizer usable.
"""

from __future__ import annotations

import copy
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.alone

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[1]
PATH = ROOT / "docs" / "tour.ipynb"


class Noting(nbclient.NotebookClient):
    """Keeps what has taken the place of something that was on display already."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.replacements: list[tuple[str, str]] = []  # (source of the cell, HTML)

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "update_display_data":
            self.replacements.append((cell.source, msg["content"]["data"]["text/html"]))
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def executed() -> Noting:
    client = Noting(nbformat.read(PATH, as_version=4), timeout=120, kernel_name="python3")
    client.execute()  # raises if a cell does
    return client


def outputs_of(executed: Noting, ending: str) -> list[Any]:
    cells = [cell for cell in executed.nb.cells if cell.cell_type == "code" and cell.source.endswith(ending)]
    assert len(cells) == 1, ending
    return cells[0].outputs


@pytest.fixture(scope="module")
def load() -> Any:
    """Imports a module of scripts/."""
    paths = [str(ROOT), str(ROOT / "scripts")]
    sys.path[:0] = paths
    yield importlib.import_module
    for path in paths:
        sys.path.remove(path)


def test_the_notebook_is_kept_with_the_outputs_of_a_run(load, executed):
    kept, now = nbformat.read(PATH, as_version=4), copy.deepcopy(executed.nb)
    load("make_notebooks").tidy(now)
    assert load("make_notebooks").stale_cells(kept, now) == [], "run python scripts/make_notebooks.py"


def test_text_that_has_changed_makes_a_notebook_stale_and_a_time_does_not(load):
    def notebook(text):
        cell = nbformat.v4.new_code_cell("f()", id="a", outputs=[nbformat.v4.new_output("stream", text=text)])
        return nbformat.v4.new_notebook(cells=[cell])

    stale_cells = load("make_notebooks").stale_cells
    assert stale_cells(notebook("loss 0.12345 in 3.1 ms"), notebook("loss 0.12346 in 12 ms")) == []
    assert stale_cells(notebook("loss 0.12345 in 3.1 ms"), notebook("loss 0.22345 in 3.1 ms")) == ["a"]


def test_the_site_shows_code_with_what_it_printed_and_drew(load):
    pages = dict(load("scripts.site.notebooks").pages())
    page = pages["tour.md"]
    assert "```text\nepoch 1  loss" in page
    assert "<table" in page
    assert pages["tour_cell-8_0.svg"].startswith(b"<svg")
    assert "](tour_cell-8_0.svg)" in page


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("\nwords", "ragged (4, *)"),
        ("\nmodel", "1,126 parameters"),
        ("ex.inspect.summary(model, [4, 5])", "1,126 parameters"),
        ("ex.inspect.trace(model, [4, 5])", "cell #2: GRUCell"),
        ('ex.inspect.draw(model, [10], title="The graph of [10]").unfold()', "<svg"),
        ("\nhistory", "<svg"),
        ("\nconfusion", "9-10"),
        ("metrics.report(truth, scores.argmax(1).tolist())", "recall"),
        ("rounds=3)", "Flexibility"),
    ],
)
def test_a_report_is_shown_as_html_or_as_a_picture(executed, ending, said):
    *_, result = outputs_of(executed, ending)
    assert result.output_type == "execute_result"
    assert said in (result.data.get("text/html") or result.data["image/svg+xml"])


def test_a_bar_moves_in_place_and_is_gone_at_the_end(executed):
    shown = [
        output for output in outputs_of(executed, "trainer.evaluate(Slow())") if output.output_type == "display_data"
    ]
    assert len(shown) == 1
    # On a busy machine other cells take long enough for a bar, too.
    *moves, last = (html for source, html in executed.replacements if source.endswith("trainer.evaluate(Slow())"))
    places = [int(place) for move in moves for place in re.findall(r'<progress value="(\d+)" max="12">', move)]
    assert len(places) == len(moves) >= 2
    assert places == sorted(set(places))
    assert last == ""


def test_training_goes_on_after_the_stop_button(executed):
    said = "".join(output.text for output in outputs_of(executed, 'was the last whole one")') if "text" in output)
    assert "interrupted" in said
    assert "90 steps done, epoch 3 was the last whole one" in said
    later = "".join(output.text for output in outputs_of(executed, "\nhistory") if "text" in output)
    assert re.findall(r"^epoch (\d)", later, re.M) == ["4", "5", "6"]


def test_a_loop_of_ones_own_goes_on_after_the_stop_button(executed):
    said = "".join(output.text for output in outputs_of(executed, '{step(batch, labels):.4f}")'))
    before, after = (float(loss) for loss in re.findall(r"(\d+\.\d+)", said))
    assert max(before, after) < 0.5  # a trained model, which the interrupt has not spoiled
