"""What a history says to people and to machines."""

from __future__ import annotations

import csv
import json
import math
import re
from xml.etree import ElementTree

import pytest

from extempo.train import History, observe
from extempo.train.history import epoch_line


def history(train, valid=None, **others):
    records = []
    for i, loss in enumerate(train):
        record = {"epoch": i + 1, "train_loss": loss}
        if valid is not None:
            record["valid_loss"] = valid[i]
        record |= {name: values[i] for name, values in others.items()}
        records.append(record | {"seconds": 1.5, "samples_per_second": 10.0, "peak_bytes": 2**27, "lr": 0.1})
    return History(records)


FALLING = history([2.0, 1.5, 1.0], [2.1, 1.6, 1.2])
BY_HEART = history([2.0, 1.0, 0.2], [2.0, 1.0, 1.5])
STUCK = history([2.0, 1.501, 1.5])


def test_three_histories_get_three_sentences_that_are_true():
    assert FALLING.observation() == (
        "Valid loss fell from 1.6 to 1.2 (-25%) in the last epoch, and training goes on paying."
    )
    assert BY_HEART.observation() == (
        "Valid loss was lowest (1) in epoch 2 and is 1.5 now, while train loss still falls (1 to 0.2): it begins to "
        "learn the training data by heart."
    )
    assert STUCK.observation() == (
        "Train loss hardly moved, from 1.501 to 1.5 (-0%) in the last epoch: it has reached a plateau."
    )


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (history([]), "Nothing was trained yet."),
        (history([2.0]), "Train loss is 2 after the first epoch; one more says where it goes."),
        (history([2.0, math.nan]), "Train loss is nan: training has broken down"),
        (history([1.0, 1.5]), r"Train loss rose from 1 to 1.5 \(\+50%\)"),
        (history([0.0, 1.5]), "Train loss rose from 0 to 1.5 in the last epoch"),
        (history([0.0, 0.0]), "hardly moved"),
        (history([math.inf, 1.0]), "Train loss"),
        (history([1.0, 0.1], [2.0, 1.0]), r"fell .* but is 10.0 times the train loss \(0.1\)"),
        (history([1.0, 0.9], [2.0, 2.01]), "hardly moved"),
        (history([-1.0, -2.0]), r"fell from -1 to -2 \(-100%\)"),
        (history([1.0, 1.2], [2.0, 3.0]), "Valid loss rose from 2 to 3"),
    ],
)
def test_sentences_about_other_courses(made, said):
    assert re.match(f".*{said}", made.observation())


def test_the_epoch_of_the_lowest_loss_is_named_by_its_number():
    later = [{**record, "epoch": record["epoch"] + 10} for record in BY_HEART]
    assert "in epoch 12" in observe(later)


@pytest.mark.parametrize("n_figures", [0, 1, 3, 8])
def test_text_is_at_most_80_columns_wide_and_has_every_figure(n_figures):
    many = {f"{of}_figure_{i}": [0.5, 1e-9 * i] for i in range(n_figures) for of in ("train", "valid")}
    made = history([2.0, 123456.0], [2.1, 1.9], **many)
    text = str(made)
    assert max(map(len, text.splitlines())) <= 80
    for i in range(n_figures):
        assert f"figure {i} (valid)" in text
    assert "2.0000 (2.1000)" in text
    assert "128.0 MB" in text
    assert made.observation() in text.replace("\n", " ")
    assert all(len(line) <= 80 for line in epoch_line(made.records[0]).splitlines())


def test_a_figure_with_a_very_long_name_is_cut():
    made = history([2.0], **{"train_" + "x" * 100: [0.5]})
    assert max(map(len, str(made).splitlines())) <= 80
    assert "0.5000" in str(made)


def test_an_epoch_in_a_line():
    assert epoch_line(FALLING.records[0]) == "epoch 1  loss 2.0000 (valid 2.1000)  1.5 s"
    assert epoch_line(STUCK.records[0]) == "epoch 1  loss 2.0000  1.5 s"


def test_values_by_name():
    assert FALLING["valid_loss"] == [2.1, 1.6, 1.2]
    assert len(FALLING) == 3
    assert [record["epoch"] for record in FALLING] == [1, 2, 3]
    with pytest.raises(KeyError, match="no figure 'valid_f1'"):
        FALLING["valid_f1"]
    assert FALLING.figures == ["train_loss", "valid_loss"]


def test_json_and_csv_are_read_back_by_others(tmp_path):
    made = history([2.0, math.nan], [0.1 + 0.2, 1.0])
    assert json.loads(made.to_json(tmp_path / "h.json")) == json.loads((tmp_path / "h.json").read_text())
    told = json.loads(made.to_json())
    assert told[0]["valid_loss"] == 0.1 + 0.2
    assert told[1]["train_loss"] is None
    made.to_csv(tmp_path / "h.csv")
    rows = list(csv.DictReader((tmp_path / "h.csv").read_text().splitlines()))
    assert [float(row["valid_loss"]) for row in rows] == made["valid_loss"]
    assert set(made.as_dict()) == {"epochs", "observation"}


def test_epochs_with_different_figures_are_one_table(tmp_path):
    made = History([{"epoch": 1, "train_loss": 2.0}, {"epoch": 2, "train_loss": 1.0, "valid_loss": 1.5}])
    assert "1.0000 (1.5000)" in str(made)
    assert math.isnan(made["valid_loss"][0])
    assert len(list(csv.DictReader(made.to_csv().splitlines()))) == 2
    assert "<svg" in made._repr_html_()


def test_curves_as_svg(tmp_path):
    picture = FALLING.plot(path=tmp_path / "h.svg")
    tree = ElementTree.parse(tmp_path / "h.svg")
    assert (tmp_path / "h.svg").read_text() == picture.svg()
    words = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"train loss", "valid loss", "epoch", "1", "2", "3"} <= set(words)
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}path"))) == 2
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}circle"))) == 6
    with pytest.raises(ValueError, match=r"\.svg or \.png"):
        FALLING.plot(path=tmp_path / "h.jpg")


def test_curves_as_png(tmp_path):
    pytest.importorskip("matplotlib", reason="PNG files need matplotlib, the extra `plot`")
    FALLING.plot("valid_loss", path=tmp_path / "h.png")
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "h.png").stat().st_size > 5000


def test_html_has_tables_curve_and_sentence():
    page = BY_HEART._repr_html_()
    assert page.count("<table>") == 1
    assert "<svg" in page
    assert "by heart" in page
    assert History()._repr_html_() == "no epochs yet"
    assert str(History()) == "no epochs yet"


@pytest.mark.parametrize(
    ("accuracies", "words"),
    [
        ((0.7, 0.94), "accuracy rose with it, from 70% to 94%"),
        ((0.94, 0.9), "accuracy fell, from 94% to 90%"),
        ((0.98, 0.981), "accuracy stays at 98%"),
        ((math.nan, 0.9), "training goes on paying"),
    ],
)
def test_a_falling_loss_is_told_with_what_accuracy_did(accuracies, words):
    records = [
        {"train_loss": loss, "valid_loss": loss, "valid_accuracy": accuracy}
        for loss, accuracy in zip((1.0, 0.5), accuracies, strict=True)
    ]
    assert words in observe(records)
