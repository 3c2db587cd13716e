"""`ex.signal`: windows for spectral analysis."""

from __future__ import annotations

from . import windows as windows

__all__ = ["windows"]
