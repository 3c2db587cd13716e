"""`nn.utils`: what training scripts do to gradients, parameters and sequences."""

from __future__ import annotations

from ...core.absent_names import explain_absent
from ..surgery import insert_layer, prune_units, remove_layer, replace_layer, widen
from . import parametrizations as parametrizations
from . import parametrize as parametrize
from . import prune as prune
from . import rnn as rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .normalized_weights import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "insert_layer",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "prune_units",
    "remove_layer",
    "remove_spectral_norm",
    "remove_weight_norm",
    "replace_layer",
    "rnn",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
    "widen",
]

explain_absent(__name__)
