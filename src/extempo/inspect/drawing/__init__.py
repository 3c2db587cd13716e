"""Drawing graphs: capture or read one into a picture model, fold it, lay it out, and write it in several formats.

what ran  ->  capture, tape, errors  ->  model  ->  rolling  ->  view  ->  layout  ->  svg, text, html, dot, Mermaid
"""

from __future__ import annotations

from .api import draw
from .differences import Difference, diff
from .drawn import Drawing
from .errors import on_error

__all__ = ["Difference", "Drawing", "diff", "draw", "on_error"]
