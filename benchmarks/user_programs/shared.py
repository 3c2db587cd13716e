"""What several of the programs share: weights that both libraries begin with, and a training step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from workload import Step, Wrap


def filled(lib: Any, module: Any, seed: int = 0) -> Any:
    """The module with weights drawn by NumPy, biases 0, and factors of norms 1."""
    rng = np.random.RandomState(seed)
    with lib.no_grad():
        for name, p in module.named_parameters():
            if p.ndim > 1:
                fan_in = int(np.prod(p.shape[1:]))
                p.copy_(lib.from_numpy((rng.randn(*p.shape) / fan_in**0.5).astype("f4")))
            else:
                p.fill_(1.0 if name.endswith("weight") else 0.0)
    return module


def tensors(lib: Any, *arrays: Any) -> tuple[Any, ...]:
    return tuple(lib.from_numpy(np.ascontiguousarray(a)) for a in arrays)


def training(
    lib: Any, wrap: Wrap, loss_of: Callable[..., Any], optimizer: Any, batches: Sequence[tuple[Any, ...]]
) -> Step:
    """step(i): one batch forward, backward and into the weights."""

    def train(*batch: Any) -> Any:
        loss = loss_of(*batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = wrap(lib, train)
    return lambda i: float(run(*batches[i % len(batches)]).item())
