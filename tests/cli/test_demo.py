"""`extempo demo`: every stage is shown and true, it learns for any seed, and it looks the same everywhere."""

import json
import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from rich.console import Console

import extempo as ex
from extempo.cli import demo, demo_stages
from extempo.cli.main import command


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, ["demo", *arguments], prog_name="extempo", catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture(scope="module")
def shown() -> str:
    return run()


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> tuple[dict, Path]:
    folder = tmp_path_factory.mktemp("demo") / "made" / "here"
    return json.loads(run("--json", "--out", str(folder))), folder


def test_the_text_is_plain_and_fits_80_columns(shown):
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_stages_come_in_order(shown):
    titles = re.findall(r"^\d  (\w+)", shown, re.M)
    assert titles == ["Data", "Preprocessing", "Embedding", "The", "Class", "Training", "One"]


def test_both_ways_of_preprocessing_stand_side_by_side_with_the_waste_counted(shown):
    assert " 4  5  .  .                          4  5\n" in shown
    assert "6 of 16 cells (38%) wasted" in shown


def test_the_readme_shows_what_the_demo_shows(shown):
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    quoted = re.search(r"```text\n(padded to 4 columns.*?no cell wasted\n)```", readme, re.S)[1]
    assert quoted in shown


def numbers(facts) -> list[float]:
    """All of them, in order, apart from those that clocks and the system's memory decide."""
    if isinstance(facts, dict):
        passing = ("seconds", "samples_per_second", "peak_bytes")
        return [n for name, value in facts.items() if name not in passing for n in numbers(value)]
    if isinstance(facts, list):
        return [n for value in facts for n in numbers(value)]
    return [float(facts)] if isinstance(facts, int | float) else []


def test_the_same_seed_gives_the_same_numbers_and_another_one_others(written):
    same, other = (numbers(json.loads(run("--json", "--seed", seed))) for seed in "01")
    assert same == pytest.approx(numbers(written[0]), rel=1e-3, abs=1e-3)
    assert other != pytest.approx(numbers(written[0]), rel=1e-3, abs=1e-3)


def test_json_has_every_stage(written):
    facts, _ = written
    assert facts["data"]["first_batch"] == [[1, 2, 3], [4, 5], [6, 7, 8, 9], [10]]
    assert facts["data"]["labels"] == [1, 2, 4, 4]
    assert (facts["preprocessing"]["n_cells"], facts["preprocessing"]["n_wasted"]) == (16, 6)
    assert facts["preprocessing"]["padded"][1] == [4, 5, 0, 0]
    assert [[len(v) for v in row] for row in facts["embedding"]["vectors"]] == [[3] * n for n in (3, 2, 4, 1)]
    assert (facts["embedding"]["before"], facts["embedding"]["after"]) == (
        "ragged (4, *) int64",
        "ragged (4, *, 3) float32",
    )
    assert [len(row) for row in facts["scores"]["scores"]] == [5] * 4
    assert [epoch["epoch"] for epoch in facts["epochs"]] == [1, 2, 3, 4, 5]
    for epoch in facts["epochs"]:
        assert {"train_loss", "valid_accuracy", "seconds", "peak_bytes"} <= set(epoch)
        assert f"{epoch['valid_loss']:.4g}" in epoch["observation"]


def test_each_length_has_a_graph_of_its_own_size(written):
    counts = {int(length): n for length, n in written[0]["rnn"]["n_nodes_by_length"].items()}
    steps = {counts[length + 1] - counts[length] for length in (1, 2, 3)}
    assert len(steps) == 1
    assert steps.pop() > 0
    assert len(ex.Graph.parse(written[0]["rnn"]["graph"])) == counts[1]


def test_the_prediction_is_told_step_by_step(written):
    facts = written[0]["prediction"]
    n_words = len(facts["input"])
    assert len(facts["embedding"]) == len(facts["states"]) == n_words
    assert sum(facts["softmax"]) == pytest.approx(1)
    assert facts["class"] == max(range(5), key=facts["softmax"].__getitem__)
    assert facts["right"] == (max(facts["input"]) - 1) // 2
    assert [step["name"] for step in facts["trace"]] == ["", *["embed", "cell"] * n_words, "score"]


class References(HTMLParser):
    """What a page would load from elsewhere, and whether its tags fit."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href")]


def test_the_page_stands_alone_and_has_the_pictures(written):
    (path,) = written[1].iterdir()
    text = path.read_text()
    references = References()
    references.feed(text)
    assert all(re.search(f'id="{place[1:]}"', text) for place in references.found), "links lead into the page itself"
    assert "@import" not in text
    assert "url(" not in text
    pictures = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.S)]
    titles = [picture.findtext("{http://www.w3.org/2000/svg}title") for picture in pictures]
    assert titles[:3] == ["Padded beside ragged", "Graphs by length", "Every op for [10]"]
    assert "<details><summary>Every op for [10]</summary>" in text, "large pictures are folded"
    loss, accuracy, states = titles[3:]
    assert "loss" in loss.lower()
    assert "accuracy" in accuracy.lower()
    assert states == "State by step"


def test_the_page_says_what_the_terminal_says(written, shown):
    page = (written[1] / demo.PAGE_NAME).read_text()
    for said in ("6 of 16 cells (38%) wasted", "1,126 parameters", "padding: none"):
        assert said in page
        assert said in shown
    accuracy = f"{written[0]['epochs'][-1]['valid_accuracy']:4.0%}"
    assert f"accuracy {accuracy}" in page
    assert f"accuracy {accuracy}" in shown


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(command, ["demo", *arguments], prog_name="extempo")
    assert result.exit_code == 2
    return " ".join(result.output.split())


def test_a_place_that_cannot_be_written_to_is_told_before_the_tour(tmp_path):
    (tmp_path / "file").write_text("")
    told = refused("--out", str(tmp_path / "file" / "below"))
    assert "cannot write to" in told
    assert "Data in" not in told


def test_a_page_that_cannot_be_written_is_told_without_a_traceback(tmp_path):
    (tmp_path / demo.PAGE_NAME).mkdir()
    assert f"cannot write to '{tmp_path / demo.PAGE_NAME}'" in refused("--json", "--out", str(tmp_path))


@pytest.mark.parametrize("seed", ["-1", "9" * 30, "seven"])
def test_a_seed_that_is_none_is_refused(seed):
    said = refused("--seed", seed)
    assert f"Invalid value for '--seed': '{seed}' is not a whole number of at most 18 digits" in " ".join(said.split())


def test_a_narrow_terminal_loses_nothing():
    wide, narrow = (Console(width=width, file=StringIO()) for width in (80, 40))
    stage = demo_stages.preprocessing([[1, 2, 3], [4, 5], [6, 7, 8, 9], [10]])
    for console in (wide, narrow):
        console.print(demo.as_text(stage))
    assert wide.file.getvalue().split() == narrow.file.getvalue().split()
    assert max(map(len, narrow.file.getvalue().splitlines())) <= 40


def test_an_interrupt_in_training_ends_the_tour(monkeypatch):
    def interrupted(self, *given, epochs):
        self.stop = "interrupted"
        return self.history

    monkeypatch.setattr("extempo.train.Trainer.fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(demo.stages(0))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_every_stage_is_wrapped_once_at_the_width_of_the_terminal(width):
    for stage in demo.stages(0):
        console = Console(width=200, file=StringIO(), highlight=False)
        console.print(demo.as_text(stage, width))
        lines = console.file.getvalue().splitlines()
        # Code and drawings are not wrapped: they need 60 columns.
        assert max(map(len, lines), default=0) <= max(width, 60), stage.name
        if stage.name == "epoch":
            break


def test_beginners_see_the_folded_graph_and_no_list_of_nodes(shown):
    assert "▸ embed, cell x 4  17 ops each" in shown
    assert "▸ score: Linear" in shown
    assert "requires_grad" not in shown
