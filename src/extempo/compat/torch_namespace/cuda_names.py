"""`torch.cuda` and `torch.cuda.amp`: constants that old programs ask, and decorators with the device filled in."""

from __future__ import annotations

from functools import partial

from ...amp import custom_bwd as _custom_bwd
from ...amp import custom_fwd as _custom_fwd
from .amp_common import amp_definitely_not_available as amp_definitely_not_available

has_half = has_magma = False
custom_fwd, custom_bwd = partial(_custom_fwd, device_type="cuda"), partial(_custom_bwd, device_type="cuda")
