"""Extempo: graphs made up as you go, at full tempo. A define-by-run deep-learning library with PyTorch's names."""

from __future__ import annotations

from . import autograd
from ._tensor import Tensor
from ._version import __version__
from .graph import Graph
from .modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .ops import *
from .ops.convert import Device as device
from .types import (
    Size,
    bfloat16,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
)
from .types import bool_ as bool
