"""CUDA devices: there are none. Scripts that ask get their answer; see `compat.accelerators`."""

from __future__ import annotations

from ..compat.accelerators import *  # noqa: F403 - the names stand in its __all__
from ..compat.accelerators import refuse_rest
from . import amp as amp

__getattr__ = refuse_rest("cuda")
