"""SyncBatchNorm: batch statistics over the samples of all processes, by PyTorch's name and meaning."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..autograd import Function
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..distributed.groups import ProcessGroup, current_world
from ..distributed.transfers import values_of
from ..errors import ShapeError
from .module import Module
from .norm_layers import _BatchNorm


def _summed(x: Tensor, group: ProcessGroup, what: str) -> Tensor:
    values = values_of(what, x)

    def act(_: Any) -> Any:
        total = values.copy()
        group.engine.all_reduce(total, "sum")
        return total

    return ops.from_numpy(group.together(what, act))


class SumOverRanks(Function):
    """The sum over ranks; so is its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup, what: str) -> Tensor:
        ctx.group, ctx.what = group, what
        return _summed(x, group, what)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _summed(gradients[0], ctx.group, f"{ctx.what} (backward)"), None, None


class SyncBatchNorm(_BatchNorm):
    """Batch norm whose mean and variance are those of the batches of all processes together.

    In one process it is BatchNorm. Every process must come to it in every step; one that does not is named in the
    error that the others get after the group's timeout.

    num_features: how many channels.
    eps: added to the variance.
    momentum: how fast running statistics move.
    affine: with weight and bias.
    track_running_stats: keep running statistics for `eval()`.
    process_group: of all processes, unless given.

    >>> nn.SyncBatchNorm(1)(ex.tensor([[1.0], [3.0]])).detach()
    tensor([[-1.0000],
            [ 1.0000]])
    """

    _n_dims = (2, 3, 4, 5)
    _axes = "(batch, {channels}, ...)"

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: ProcessGroup | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group
        self.layer_name = ""  # where it is in the model, for messages

    def forward(self, input: Tensor) -> Tensor:
        """Normalise a batch, together with the other processes while training.

        input: (batch, channels, ...).
        """
        group = self.process_group if self.process_group is not None else current_world()
        if group is None or group.size() == 1 or not self.training:
            return super().forward(input)
        self._check_input_dim(input)
        if input.shape[1] != self.num_features:
            raise ShapeError(f"SyncBatchNorm: expected input {self._expected()}, got shape {tuple(input.shape)}")
        return self._normalised(input, group)

    def _normalised(self, input: Tensor, group: ProcessGroup) -> Tensor:
        dims = [0, *range(2, input.ndim)]
        shape = [1, -1] + [1] * (input.ndim - 2)
        where = f"SyncBatchNorm {self.layer_name or f'({self.num_features} channels)'}"
        own = float(input.numel() // self.num_features)
        sums = ops.cat([input.sum(dims), input.new_full((1,), own)])
        totals = SumOverRanks.apply(sums, group, f"{where}: mean")
        count = float(totals[-1].item())
        mean = totals[:-1] / count
        centred = input - mean.reshape(shape)
        variance = SumOverRanks.apply((centred * centred).sum(dims), group, f"{where}: variance") / count
        result = centred * ops.rsqrt(variance + self.eps).reshape(shape)
        if self.weight is not None:
            result = result * self.weight.reshape(shape)
        if self.bias is not None:
            result = result + self.bias.reshape(shape)
        self._track(mean.detach(), variance.detach() * (count / max(count - 1, 1)))
        return result

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        if self.num_batches_tracked is None or self.running_mean is None or self.running_var is None:
            return
        with no_grad():
            self.num_batches_tracked.add_(1)
            share = 1.0 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
            self.running_mean.mul_(1 - share).add_(mean * share)
            self.running_var.mul_(1 - share).add_(variance * share)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: ProcessGroup | None = None) -> Module:
        """A model in which every BatchNorm is a SyncBatchNorm with the same weights.

        module: the model, changed in place unless it is itself a BatchNorm.
        process_group: of all processes, unless given.
        """
        return cls._converted(module, process_group, "")

    @classmethod
    def _converted(cls, module: Module, group: ProcessGroup | None, name: str) -> Module:
        made: Module = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            made = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, group
            )
            made.layer_name = name
            for kept in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(made, kept, getattr(module, kept))
            made.training = module.training
        for child_name, child in module.named_children():
            made.add_module(child_name, cls._converted(child, group, f"{name}.{child_name}" if name else child_name))
        return made
