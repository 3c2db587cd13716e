"""Drawing: folding by names, and files in every format."""

import pytest

import extempo as ex
from extempo import nn
from extempo.inspect import draw

from .models import Reader, titles


def test_groups_fold_and_unfold_by_their_names():
    drawing = draw(Reader(), [1, 2, 3]).fold()
    once = drawing.unfold("embed, cell")
    assert titles(once.view) == ["embed: Embedding", "cell: GRUCell", "score: Linear"]
    assert titles(once.fold("embed, cell").view) == titles(drawing.view)
    assert len(titles(drawing.unroll("embed, cell").view)) == 7
    assert "score: Linear" in drawing.groups()


def test_a_name_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(KeyError, match=r"unfold: no group is called 'encoder'; there are cell, embed"):
        draw(Reader(), [1, 2]).unfold("encoder")


@pytest.mark.parametrize("suffix", ["html", "svg", "dot", "gv", "mmd", "txt"])
def test_it_is_written_in_the_format_of_the_path(tmp_path, suffix):
    written = draw(nn.ReLU(), ex.ones(2)).save(tmp_path / f"graph.{suffix}").read_text(encoding="utf-8")
    begins = {"html": "<!doctype html>", "svg": "<svg", "dot": "digraph", "gv": "digraph", "mmd": "---", "txt": "ReLU"}
    assert written.startswith(begins[suffix])
    assert "relu" in written


def test_another_ending_is_refused_with_those_that_are_known(tmp_path):
    with pytest.raises(ValueError, match=r"ends in one of \.svg, \.png, \.html"):
        draw(nn.ReLU(), ex.ones(2)).save(tmp_path / "graph.jpg")


def test_printing_shows_text_and_no_svg():
    drawing = draw(nn.ReLU(), ex.ones(2))
    assert "<svg" not in str(drawing)
    assert "<svg" not in repr(drawing.picture())
    assert drawing._repr_svg_().startswith("<svg")
