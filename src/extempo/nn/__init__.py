"""`ex.nn`: what networks are made of."""

from __future__ import annotations

# ruff: noqa: F403 - the names of layers are stated once, in the __all__ of the module that defines them
from ..core.absent_names import explain_absent
from ..core.public_names import publish
from . import (
    activation_layers,
    adaptive_softmax,
    conv_layers,
    distance_layers,
    dropout_layers,
    embedding_layers,
    lazy_layers,
    linear_layers,
    losses,
    norm_layers,
    pair_losses,
    pooling_layers,
    shape_layers,
)
from . import functional as functional
from . import init as init
from . import parallel as parallel
from . import parameter as parameter
from . import utils as utils
from .activation_layers import *
from .adaptive_softmax import *
from .attention import MultiheadAttention
from .containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .conv_layers import *
from .distance_layers import *
from .dropout_layers import *
from .embedding_layers import *
from .lazy_layers import *
from .linear_layers import *
from .losses import *
from .module import Module
from .norm_layers import *
from .pair_losses import *
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from .pooling_layers import *
from .recurrent import GRU, LSTM, RNN, RNNBase
from .recurrent_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from .refused_layers import REFUSED_LAYERS
from .shape_layers import *
from .sync_batch_norm import SyncBatchNorm
from .transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .trees import ChildSumTreeLSTMCell, NaryTreeLSTMCell, TreeState

__all__ = [
    "GRU", "LSTM", "RNN", "Buffer", "ChildSumTreeLSTMCell", "GRUCell", "LSTMCell", "Module", "ModuleDict", "ModuleList",
    "MultiheadAttention", "NaryTreeLSTMCell", "Parameter", "ParameterDict", "ParameterList", "RNNBase", "RNNCell",
    "RNNCellBase", "Sequential", "SyncBatchNorm", "Transformer", "TransformerDecoder", "TransformerDecoderLayer",
    "TransformerEncoder", "TransformerEncoderLayer", "TreeState", "UninitializedBuffer", "UninitializedParameter",
    "functional", "init", "parallel", "parameter", "utils",
]  # fmt: skip

# ---- layers and losses: each module's own __all__ says what it offers
__all__ += activation_layers.__all__
__all__ += adaptive_softmax.__all__
__all__ += conv_layers.__all__
__all__ += distance_layers.__all__
__all__ += dropout_layers.__all__
__all__ += embedding_layers.__all__
__all__ += lazy_layers.__all__
__all__ += linear_layers.__all__
__all__ += losses.__all__
__all__ += norm_layers.__all__
__all__ += pair_losses.__all__
__all__ += pooling_layers.__all__
__all__ += shape_layers.__all__

explain_absent(__name__, REFUSED_LAYERS)
publish(__name__, __all__, globals())
