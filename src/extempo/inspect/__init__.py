"""Looking into models: what each module did to its input, the layers, the graph as a picture, curves."""

from __future__ import annotations

from ..core.absent_names import explain_absent
from ..core.public_names import publish
from ..core.value_summary import Look
from .curves import curve, sparkline
from .drawing import Difference, Drawing, diff, draw, on_error
from .explaining import Explanation, ParameterReport
from .guarding import guard
from .looking import look
from .nonfinite import first_nonfinite
from .replaying import Replay, ReplayedNode, replay
from .summaries import Summary, summary
from .tables import Column, Table
from .tracing import Step, Trace, glimpse, trace

__all__ = [
    "Column",
    "Difference",
    "Drawing",
    "Explanation",
    "Look",
    "ParameterReport",
    "Replay",
    "ReplayedNode",
    "Step",
    "Summary",
    "Table",
    "Trace",
    "curve",
    "diff",
    "draw",
    "first_nonfinite",
    "glimpse",
    "guard",
    "look",
    "on_error",
    "replay",
    "sparkline",
    "summary",
    "trace",
]

publish(__name__, __all__, globals())

explain_absent(__name__)
