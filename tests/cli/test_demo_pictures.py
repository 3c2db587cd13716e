"""The pictures of the tour: as many cells as there are words, and where each is."""

from __future__ import annotations

from xml.etree import ElementTree

from extempo.cli import demo_pictures


def parts(picture, tag):
    root = ElementTree.fromstring(picture.svg())
    return [part for part in root if part.tag.endswith(tag)]


def texts(picture):
    return [part.text for part in parts(picture, "text")]


def test_padding_is_drawn_beside_no_padding():
    picture = demo_pictures.paddings([[1, 2], [3, 0]], [[1, 2], [3]], "1 of 4 cells")
    cells = [rect for rect in parts(picture, "rect") if "x" in rect.attrib]
    assert len(cells) == 4 + 3
    assert sum(rect.attrib["stroke-dasharray"] != "none" for rect in cells) == 1
    assert "padded: 1 of 4 cells wasted" in texts(picture)


def test_a_chain_has_a_cell_for_each_word_and_one_score():
    picture = demo_pictures.chains([[4, 5], [10]], {2: 30, 1: 20})
    found = texts(picture)
    assert (found.count("cell"), found.count("score")) == (3, 2)
    assert {"embed(4)", "embed(5)", "embed(10)", "30 nodes", "20 nodes"} <= set(found)


def test_states_are_coloured_by_sign_and_as_strong_as_they_are_large():
    picture = demo_pictures.states([7], [[0.5, -0.25, 3.0]])
    strengths = {rect[0].text: rect.attrib for rect in parts(picture, "rect") if len(rect)}
    assert [a["fill-opacity"] for a in strengths.values()] == ["0.5", "0.25", "1"]
    above, below, _ = (a["fill"] for a in strengths.values())
    assert above != below
    assert "word 7" in texts(picture)
