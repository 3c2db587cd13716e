"""What the programs share: weights and inputs by formulas, so that every library has the same, and results as JSON."""

import json

import torch


def waves(*shape, step=1.0, dtype=torch.float32):
    """Numbers between -1 and 1."""
    n = 1
    for size in shape:
        n *= size
    return torch.sin(torch.arange(n, dtype=dtype) * step).reshape(shape)


def fill(module, scale=0.3):
    """Give every parameter values of its own."""
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            values = waves(max(parameter.numel(), 1), step=0.37 * (i % 7 + 1)) * scale
            parameter.copy_(values[: parameter.numel()].reshape(parameter.shape))


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.detach().tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.item() if hasattr(value, "item") else value


def show(**results):
    print(json.dumps(plain(results)))
