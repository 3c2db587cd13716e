"""Looking into models: what each module did to its input, the layers, the graph as a picture, curves."""

from __future__ import annotations

from ..core.absent_names import explain_absent
from ..core.public_names import publish
from .curves import curve, sparkline
from .drawing import draw
from .nonfinite import first_nonfinite
from .summaries import Summary, summary
from .tables import Column, Table
from .tracing import Step, Trace, glimpse, trace

__all__ = [
    "Column",
    "Step",
    "Summary",
    "Table",
    "Trace",
    "curve",
    "draw",
    "first_nonfinite",
    "glimpse",
    "sparkline",
    "summary",
    "trace",
]

publish(__name__, __all__, globals())

explain_absent(__name__)
