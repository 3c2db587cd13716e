"""Pictures as PNG files."""

import sys

import pytest

from extempo.inspect.svg import Picture

from .shapes import picture

PLACES = {
    "rect": (30, 40),
    "rect above": (15, 15),
    "circle": (70, 28),
    "line": (52, 25),
    "path": (70, 48),
    "paper": (95, 40),
}


def test_png_has_the_shapes_where_they_belong(tmp_path):
    image = pytest.importorskip("matplotlib.image", reason="PNG files need matplotlib, the extra `plot`")
    pixels = image.imread(picture().save(tmp_path / "picture.png"))
    assert pixels.shape[:2] == (100, 200)
    seen = {name: [round(float(c)) for c in pixels[2 * y, 2 * x, :3]] for name, (x, y) in PLACES.items()}
    assert seen == {
        "rect": [1, 0, 0],
        "rect above": [0, 1, 0],
        "circle": [0, 0, 1],
        "line": [0, 0, 0],
        "path": [0, 0, 0],
        "paper": [1, 1, 1],
    }


def test_png_has_curves_and_the_heads_of_arrows(tmp_path):
    image = pytest.importorskip("matplotlib.image", reason="PNG files need matplotlib, the extra `plot`")
    made = Picture(100, 50, "arrow")
    made.polygon([(10, 10), (40, 10), (25, 40)], fill="#ff0000")
    made.curve((60, 5), (60, 45), (90, 45), (90, 5), stroke="#0000ff", stroke_width=4)
    pixels = image.imread(made.save(tmp_path / "arrow.png"))
    assert [round(float(c)) for c in pixels[40, 50, :3]] == [1, 0, 0]
    assert [round(float(c)) for c in pixels[70, 150, :3]] == [0, 0, 1]  # the lowest point of the bend


def test_without_matplotlib_a_png_says_what_to_install(tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'extempo\[plot\]'; .svg needs nothing"):
        picture().save(tmp_path / "picture.png")
