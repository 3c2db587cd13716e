"""`ex.nn`: what networks are made of."""

from __future__ import annotations

from . import functional as functional

__all__ = ["functional"]
