"""Pictures as PNG files."""

import sys

import pytest

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


def test_without_matplotlib_a_png_says_what_to_install(tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'extempo\[plot\]'; .svg needs nothing"):
        picture().save(tmp_path / "picture.png")
