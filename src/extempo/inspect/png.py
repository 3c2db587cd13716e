"""Pictures as PNG files, painted by matplotlib, which is an extra: exactly what `svg.Picture` can draw."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PER_INCH = 100  # units of a picture
_POINTS = 72 / _PER_INCH  # in a unit
_CURVE_STEPS = 16
_SHARPNESS = 2  # pixels for each unit
_MOST_PIXELS = 30_000  # for a side; matplotlib paints no more than twice as many
_ALIGNMENTS = {"start": "left", "middle": "center", "end": "right"}


def write(svg: str, path: Path) -> None:
    """Paint a picture's SVG text into a file."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("save: PNG files need matplotlib: pip install 'extempo[plot]'; .svg needs nothing") from None
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    figure = Figure(figsize=(width / _PER_INCH, height / _PER_INCH))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for place, part in enumerate(root):
        _paint(axes, part, place)
    sharpness = min(_SHARPNESS, _MOST_PIXELS / max(width, height))
    figure.savefig(path, dpi=_PER_INCH * sharpness)


def _paint(axes: Axes, part: ElementTree.Element, place: int) -> None:
    """One shape; those that come later lie above, as in the SVG."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Circle, FancyBboxPatch, Polygon

    given = part.attrib
    dashes = given.get("stroke-dasharray", "none")
    width = float(given.get("stroke-width", 1)) * _POINTS
    style = "solid" if dashes == "none" else (0, tuple(float(n) for n in dashes.split()))
    faces: dict[str, Any] = {
        "facecolor": to_rgba(given.get("fill", "black"), float(given.get("fill-opacity", 1))),
        "edgecolor": given.get("stroke", "none"),
        "linewidth": width,
        "linestyle": style,
        "zorder": place,
    }
    kind = part.tag.rsplit("}", 1)[-1]
    if kind == "rect" and "x" in given:
        x, y, across, down = (float(given[key]) for key in ("x", "y", "width", "height"))
        shape = f"round,pad=0,rounding_size={given['rx']}" if "rx" in given else "square,pad=0"
        axes.add_patch(FancyBboxPatch((x, y), across, down, boxstyle=shape, **faces))
    elif kind == "circle":
        axes.add_patch(Circle((float(given["cx"]), float(given["cy"])), float(given["r"]), **faces))
    elif kind in ("line", "path"):
        text = given["d"] if kind == "path" else " ".join(given[key] for key in ("x1", "y1", "x2", "y2"))
        numbers = [float(n) for n in re.findall(r"-?[0-9.]+", text)]
        points = list(zip(numbers[::2], numbers[1::2], strict=True))
        across_line, down_line = zip(*(_bent(points) if "C" in text else points), strict=True)
        axes.plot(across_line, down_line, color=given["stroke"], linewidth=width, linestyle=style, zorder=place)
    elif kind == "polygon":
        corners = [tuple(map(float, pair.split(","))) for pair in given["points"].split()]
        axes.add_patch(Polygon(corners, closed=True, **faces))
    elif kind == "text":
        turned = re.match(r"rotate\((-?[0-9.]+)", given.get("transform", ""))
        axes.text(
            float(given["x"]),
            float(given["y"]),
            part.text or "",
            fontsize=float(given["font-size"]) * _POINTS,
            fontweight="bold" if "font-weight" in given else "normal",
            color=given["fill"],
            horizontalalignment=_ALIGNMENTS[given["text-anchor"]],
            rotation=-float(turned[1]) if turned else 0,
            rotation_mode="anchor",
            parse_math=False,
            zorder=place,
        )


def _bent(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points on the curve from the first of four to the last, drawn towards the two between them."""
    found = []
    for step in range(_CURVE_STEPS + 1):
        t = step / _CURVE_STEPS
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
        found.append(
            (
                sum(w * x for w, (x, _) in zip(weights, points, strict=True)),
                sum(w * y for w, (_, y) in zip(weights, points, strict=True)),
            )
        )
    return found
