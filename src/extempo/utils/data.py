"""`extempo.data` under the name where PyTorch has it."""

from __future__ import annotations

from ..data import *
from ..data import __all__ as __all__
