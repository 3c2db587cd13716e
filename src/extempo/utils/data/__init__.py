"""`extempo.data` under the name where PyTorch has it."""

from __future__ import annotations

from ...data import *  # noqa: F403 # the names are stated once, in data.__all__
from ...data import __all__ as __all__
