"""The operations, by family: the functions of `public`, and what serves gradients and layers in other rooms.

Every module with an op is loaded here, also one whose functions are public elsewhere (`attention` in `nn.functional`):
the registry is whole once Extempo is imported.
"""

from __future__ import annotations

from ..core import types as types
from ..dispatch.fast_path import bind_operators
from . import attention as attention
from . import class_loss as class_loss
from . import control_flow as control_flow
from . import ctc as ctc
from . import gamma_gradient as gamma_gradient
from . import lookup as lookup
from . import orthogonal as orthogonal
from . import patches as patches
from . import public
from . import recurrence as recurrence
from . import row_attention as row_attention
from . import segments as segments
from .arithmetic import zero as zero
from .convert import broadcastable as broadcastable
from .define import deliver as deliver
from .define import deliver_converted as deliver_converted
from .define import deliver_each as deliver_each
from .define import refuse_shared as refuse_shared
from .dropouts import native_dropout_backward as native_dropout_backward
from .normalization import _batch_norm_with_update as _batch_norm_with_update
from .pool import max_pool2d_with_indices_backward as max_pool2d_with_indices_backward
from .products import linear as linear
from .public import *
from .resample import _upsample_bilinear2d_aa as _upsample_bilinear2d_aa
from .scan import product_before as product_before
from .softmaxes import _softmax_backward_data as _softmax_backward_data

__all__ = [name for name in vars(public) if not name.startswith("_")]

bind_operators()
