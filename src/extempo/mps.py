"""Apple's Metal devices: there are none. Scripts that ask get their answer; see `compat.accelerators`."""

from __future__ import annotations

from .compat.accelerators import *  # noqa: F403 - the names stand in its __all__
from .compat.accelerators import refusals
from .core.absent_names import explain_absent

explain_absent(__name__, refusals("mps"))
