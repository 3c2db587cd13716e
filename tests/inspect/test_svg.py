"""Pictures as SVG: text that any reader takes."""

from xml.etree import ElementTree

import pytest

from extempo.inspect.svg import Picture, ticks

from .shapes import picture


def test_svg_is_well_formed_whatever_the_words(tmp_path):
    tree = ElementTree.parse(picture().save(tmp_path / "picture.svg"))
    assert [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")] == ["words & $signs$"]


def test_an_ending_that_is_neither_is_refused_and_nothing_written(tmp_path):
    with pytest.raises(ValueError, match=r"\.svg or \.png"):
        picture().save(tmp_path / "picture.jpg")
    assert list(tmp_path.iterdir()) == []


def test_ticks_are_round_and_inside():
    assert ticks(0.0, 1.0, 4) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert ticks(3.0, 97.0, 5) == [20.0, 40.0, 60.0, 80.0]
    assert ticks(2.0, 2.0) == [2.0]
    assert ticks(0.0, float("nan")) == [0.0]


def test_no_points_are_no_path_and_nothing_has_a_negative_size():
    made = Picture(10, 10, "empty")
    made.path([])
    made.rect(1, 1, -5, 2)
    assert "<path" not in made.svg()
    assert 'width="0"' in made.svg()


def test_printing_a_picture_shows_no_svg():
    made = Picture(100, 50, "cells")
    assert str(made) == repr(made) == "cells (100 x 50; save(path) writes it, svg() is its text)"
    assert made.svg().startswith("<svg")


def test_curves_and_polygons_have_their_points():
    made = Picture(100, 50, "cells")
    made.curve((1, 2), (3, 4), (5, 6), (7, 8.5), stroke="#123456")
    made.polygon([(0, 0), (1, 0), (0.5, 2)], fill="#654321")
    assert '<path d="M1 2 C3 4 5 6 7 8.5" stroke="#123456" fill="none"/>' in made.svg()
    assert '<polygon points="0,0 1,0 0.5,2" fill="#654321"/>' in made.svg()
