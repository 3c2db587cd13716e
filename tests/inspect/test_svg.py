"""Pictures as files: SVG is text that any reader takes, PNG shows the same."""

import sys
from xml.etree import ElementTree

import pytest

from extempo.inspect.svg import Picture


def picture() -> Picture:
    made = Picture(100, 50, "a < b")
    made.rect(0, 0, 50, 50, fill="#ff0000", title="under the mouse")
    made.rect(10, 10, 10, 10, rx=2, fill="#00ff00", stroke_dasharray="3 3")
    made.circle(75, 25, 10, fill="#0000ff")
    made.line(52, 0, 52, 50, stroke="#000000", stroke_width=3)
    made.path([(60, 48), (90, 48)], stroke="#000000", stroke_width=3)
    made.text(75, 10, "words & $signs$", anchor="middle", transform="rotate(-90 75 10)", font_weight=600)
    return made


def test_svg_is_well_formed_whatever_the_words(tmp_path):
    tree = ElementTree.parse(picture().save(tmp_path / "picture.svg"))
    assert [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")] == ["words & $signs$"]


def test_png_has_the_shapes_where_they_belong(tmp_path):
    image = pytest.importorskip("matplotlib.image", reason="PNG files need matplotlib, the extra `plot`")
    pixels = image.imread(picture().save(tmp_path / "picture.png"))
    assert pixels.shape[:2] == (100, 200)
    seen = {name: [round(float(c)) for c in pixels[2 * y, 2 * x, :3]] for name, (x, y) in _PLACES.items()}
    assert seen == {
        "rect": [1, 0, 0],
        "rect above": [0, 1, 0],
        "circle": [0, 0, 1],
        "line": [0, 0, 0],
        "path": [0, 0, 0],
        "paper": [1, 1, 1],
    }


_PLACES = {"rect": (30, 40), "rect above": (15, 15), "circle": (70, 28), "line": (52, 25), "path": (70, 48)}
_PLACES["paper"] = (95, 40)


def test_an_ending_that_is_neither_is_refused_and_nothing_written(tmp_path):
    with pytest.raises(ValueError, match=r"\.svg or \.png"):
        picture().save(tmp_path / "picture.jpg")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_a_png_says_what_to_install(tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'extempo\[plot\]'; .svg needs nothing"):
        picture().save(tmp_path / "picture.png")
