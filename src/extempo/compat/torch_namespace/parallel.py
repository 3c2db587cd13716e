"""`torch.nn.parallel`: Extempo's DistributedDataParallel, and what PyTorch has for many devices of one process."""

from __future__ import annotations

from typing import Any

from ...nn.module import Module
from ...nn.parallel import DistributedDataParallel

__all__ = [
    "DataParallel", "DistributedDataParallel", "gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs"
]  # fmt: skip


class DataParallel(Module):
    """The module itself, one level down: names in the state_dict begin with `module.` as PyTorch's do."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """The share of each device: the one device gets everything."""
    return [inputs]


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> tuple[list[Any], list[Any]]:
    """The shares of positional arguments and of keyword arguments."""
    return [inputs], [kwargs or {}]


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """What `scatter` took apart."""
    return outputs[0]


def replicate(network: Module, devices: Any, detach: bool = False) -> list[Module]:
    """One for each device: there is one device, and it has the module."""
    return [network]


def parallel_apply(modules: Any, inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> list[Any]:
    """Each module's result on its own inputs, one after the other."""
    keywords = kwargs_tup if kwargs_tup is not None else [{}] * len(modules)
    given = (args if isinstance(args, tuple) else (args,) for args in inputs)
    return [run(*args, **kwargs) for run, args, kwargs in zip(modules, given, keywords, strict=True)]
