"""The operations, by family. Each module's `__all__` is what users see; the rest serves gradients here.

Every module with an op is loaded here, also one whose functions are public elsewhere (`attention` in `nn.functional`):
the registry is whole once Extempo is imported.
"""

from __future__ import annotations

from ..core import types as types
from . import (
    activation,
    arithmetic,
    arrange,
    bessel,
    choice,
    comparison,
    contraction,
    conv,
    convert,
    counting,
    creation,
    differences,
    dropouts,
    error_functions,
    factories,
    factors,
    gamma_functions,
    index,
    join,
    limits,
    linalg_older,
    loss,
    matrices,
    normalization,
    norms,
    pool,
    products,
    reduce,
    resample,
    rounding,
    sampling,
    scan,
    scattering,
    shaping,
    softmaxes,
    sorting,
    statistics,
    systems,
    toplevel,
    transcendental,
    view,
)
from . import attention as attention
from . import class_loss as class_loss
from . import ctc as ctc
from . import gamma_gradient as gamma_gradient
from . import lookup as lookup
from . import orthogonal as orthogonal
from . import recurrence as recurrence
from . import row_attention as row_attention
from . import segments as segments
from .activation import *
from .arithmetic import *
from .arithmetic import zero as zero
from .arrange import *
from .bessel import *
from .choice import *
from .comparison import *
from .contraction import *
from .conv import *
from .convert import *
from .convert import broadcastable as broadcastable
from .counting import *
from .creation import *
from .define import deliver as deliver
from .define import deliver_converted as deliver_converted
from .define import deliver_each as deliver_each
from .define import refuse_shared as refuse_shared
from .differences import *
from .dropouts import *
from .dropouts import native_dropout_backward as native_dropout_backward
from .error_functions import *
from .factories import *
from .factors import *
from .gamma_functions import *
from .index import *
from .join import *
from .limits import *
from .linalg_older import *
from .loss import *
from .matrices import *
from .normalization import *
from .normalization import _batch_norm_with_update as _batch_norm_with_update
from .norms import *
from .pool import *
from .pool import max_pool2d_with_indices_backward as max_pool2d_with_indices_backward
from .products import *
from .products import linear as linear
from .reduce import *
from .resample import *
from .resample import _upsample_bilinear2d_aa as _upsample_bilinear2d_aa
from .rounding import *
from .sampling import *
from .scan import *
from .scan import product_before as product_before
from .scattering import *
from .shaping import *
from .softmaxes import *
from .softmaxes import _softmax_backward_data as _softmax_backward_data
from .sorting import *
from .statistics import *
from .systems import *
from .toplevel import *
from .transcendental import *
from .view import *

__all__: list[str] = []
__all__ += activation.__all__
__all__ += arithmetic.__all__
__all__ += arrange.__all__
__all__ += bessel.__all__
__all__ += choice.__all__
__all__ += comparison.__all__
__all__ += contraction.__all__
__all__ += conv.__all__
__all__ += convert.__all__
__all__ += counting.__all__
__all__ += creation.__all__
__all__ += differences.__all__
__all__ += dropouts.__all__
__all__ += error_functions.__all__
__all__ += factories.__all__
__all__ += factors.__all__
__all__ += gamma_functions.__all__
__all__ += index.__all__
__all__ += join.__all__
__all__ += limits.__all__
__all__ += linalg_older.__all__
__all__ += loss.__all__
__all__ += matrices.__all__
__all__ += normalization.__all__
__all__ += norms.__all__
__all__ += pool.__all__
__all__ += products.__all__
__all__ += reduce.__all__
__all__ += resample.__all__
__all__ += rounding.__all__
__all__ += sampling.__all__
__all__ += scan.__all__
__all__ += scattering.__all__
__all__ += shaping.__all__
__all__ += softmaxes.__all__
__all__ += sorting.__all__
__all__ += statistics.__all__
__all__ += systems.__all__
__all__ += toplevel.__all__
__all__ += transcendental.__all__
__all__ += view.__all__
