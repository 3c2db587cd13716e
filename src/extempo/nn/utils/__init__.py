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

explain_absent(
    __name__,
    {
        **dict.fromkeys(
            ("fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"),
            "layers are not merged; ex.compile runs the normalisation in one pass",
        ),
        **dict.fromkeys(
            ("convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"),
            "use model.to(memory_format=ex.channels_last)",
        ),
        "skip_init": "construct the layer as usual: its weights are drawn in one pass",
        "stateless": "use ex.func.functional_call",
    },
)
