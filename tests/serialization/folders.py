"""Folders to save into."""

from __future__ import annotations

import os
from pathlib import Path


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))
