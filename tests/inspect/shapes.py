"""A picture with every shape."""

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
