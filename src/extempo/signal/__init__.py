"""`ex.signal`: windows for spectral analysis."""

from __future__ import annotations

from ..core.absent_names import explain_absent
from . import windows as windows

__all__ = ["windows"]

explain_absent(__name__)
