"""Pictures as files: SVG is text that any reader takes, PNG shows the same."""

from xml.etree import ElementTree

import pytest

from .shapes import _PLACES, picture


def test_svg_is_well_formed_whatever_the_words(tmp_path):
    tree = ElementTree.parse(picture().save(tmp_path / "picture.svg"))
    assert [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")] == ["words & $signs$"]


_PLACES["paper"] = (95, 40)


def test_an_ending_that_is_neither_is_refused_and_nothing_written(tmp_path):
    with pytest.raises(ValueError, match=r"\.svg or \.png"):
        picture().save(tmp_path / "picture.jpg")
    assert list(tmp_path.iterdir()) == []
