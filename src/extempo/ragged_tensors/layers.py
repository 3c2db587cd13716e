"""What layers are made of: lookups, normalization, dropout. Losses, convolution and attention have their own modules.

Statistics are those of real elements, as there are no others. What an op does with each row by itself is done row by
row (`per_row`), everything else by one op on the values.
"""

from __future__ import annotations

from typing import Any

from ..core.op import Op
from ..core.tensor import Tensor, TensorLike
from ..core.types import dtype
from ..dispatch.dispatcher import apply
from ..errors import ShapeError
from ..ops.lookup import embedding_bag as bags_of
from ..ops.normalization import group_norm as group_norm_of
from ..ops.normalization import instance_norm as instance_norm_of
from ..ops.normalization import local_response_norm as response_norm_of
from ..ops.sampling import dropout_noise
from .per_row import mapped
from .tensor import RaggedTensor, as_ragged, refuse

# ---- lookups


def embedding(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """Rows of a table that all rows share."""
    weight, indices, padding = inputs
    if isinstance(weight, TensorLike):
        refuse("embedding from a ragged table", "its rows are shared; use x.values()")
    return indices.like(apply(op, (weight, indices._flat, padding), attrs))


def embedding_bag(input: Any, weight: Tensor, offsets: Any, per_sample_weights: Any, **options: Any) -> Tensor:
    """F.embedding_bag of ragged numbers (B, *): each row is a bag."""
    indices = as_ragged(input, "embedding_bag")
    if indices.ndim != 2 or offsets is not None:
        raise ShapeError(
            f"embedding_bag: ragged rows (B, *) are the bags, without offsets; got shape {tuple(indices.shape)}"
            f"{'' if offsets is None else ' and offsets'}"
        )
    if per_sample_weights is not None:
        if not (isinstance(per_sample_weights, RaggedTensor) and per_sample_weights.shape == indices.shape):
            raise ShapeError(
                "embedding_bag: per_sample_weights must be ragged with the lengths of the bags, "
                f"{indices._rows.brief()}"
            )
        per_sample_weights = per_sample_weights._flat
    return bags_of(
        indices._flat,
        weight,
        indices._rows.offsets_tensor,
        per_sample_weights=per_sample_weights,
        include_last_offset=True,
        **options,
    )


# ---- normalization


def standardize(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Any, ...]:
    """Over features of each element, or for each channel over all elements of all rows."""
    x, *parameters = inputs
    if not isinstance(x, RaggedTensor) or any(isinstance(t, TensorLike) for t in parameters):
        refuse("normalization with ragged weights", "weights are shared by all rows")
    dims = attrs["dims"]
    if (0 in dims) != (x._dim in dims):
        refuse(
            f"normalization over {'rows, place by place' if 0 in dims else 'each row'}, in shape {tuple(x.shape)}",
            "channels come second: with x.transpose(1, 2), each channel is normalized over all elements of all rows",
        )
    y, mean, variance = apply(op, (x._flat, *parameters), {**attrs, "dims": tuple(d - 1 for d in dims if d)})
    if 0 in dims:
        return x.like(y), mean.unsqueeze(0), variance.unsqueeze(0)
    return x.like(y), x.like(mean), x.like(variance)


def group_norm(x: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> Any:
    """F.group_norm, each row by itself."""

    def of_row(row: Tensor) -> Tensor:
        return group_norm_of(row.unsqueeze(0), num_groups, weight, bias, eps).squeeze(0)

    return mapped("group_norm", of_row, x)


def instance_norm(x: Any, running: tuple[Any, Any], weight: Any, bias: Any, eps: float) -> Any:
    """F.instance_norm by the statistics of each row. `running`: mean and variance that it would update."""
    if any(t is not None for t in running):
        refuse(
            "instance_norm that updates running statistics", "use track_running_stats=False, or batch_norm, which can"
        )

    def of_row(row: Tensor) -> Tensor:
        return instance_norm_of(row.unsqueeze(0), None, None, weight, bias, eps=eps).squeeze(0)

    return mapped("instance_norm", of_row, x, least=2)


def local_response_norm(x: Any, *options: Any) -> Any:
    """F.local_response_norm, each row by itself."""
    return mapped("local_response_norm", lambda row: response_norm_of(row.unsqueeze(0), *options).squeeze(0), x)


# ---- dropout


def noise_for(x: Any, p: float, scale: float, d: dtype, channels: bool) -> Any:
    """What dropout multiplies with: one draw for each element, or for each row and each place of dimension 1."""
    shape = x._flat.shape
    if not channels:
        return x.like(dropout_noise(tuple(shape), p, scale, d))
    ones = (1,) * (x.ndim - 2)
    if x._dim == 1:
        return x.like(dropout_noise((shape[0], *ones), p, scale, d))
    return dropout_noise((x._rows.n, shape[0], *ones), p, scale, d)
