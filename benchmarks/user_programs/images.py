"""Training on images of 32x32: a ResNet-18 and a U-Net."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from workload import LEARNING_RATE, Step, Wrap

from .shared import filled, tensors, training

N_RESNET, N_UNET = 8, 4  # images in a batch


def resnet18(lib: Any, wrap: Wrap) -> Step:
    """ResNet-18 for images of 32x32 (a 3x3 stem without pooling), 8 of them, SGD with momentum."""
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined] # of a library that is known when it runs
        def __init__(self, n_in: int, n_out: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
            self.norm, self.second_norm = nn.BatchNorm2d(n_out), nn.BatchNorm2d(n_out)
            self.beside = nn.Sequential()
            if stride > 1:
                self.beside = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))

        def forward(self, x: Any) -> Any:
            h = F.relu(self.norm(self.first(x)))
            return F.relu(self.second_norm(self.second(h)) + self.beside(x))

    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = [Block(n_in, n_out, 1 if n_in == n_out else 2) for n_in, n_out in pairwise(widths)]
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    model = filled(lib, nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)))
    rng = np.random.RandomState(1)
    x, y = rng.randn(4, N_RESNET, 3, 32, 32).astype("f4"), rng.randint(0, 10, (4, N_RESNET))
    batches = [tensors(lib, *batch) for batch in zip(x, y, strict=True)]
    optimizer = lib.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, weight_decay=5e-4)
    return training(lib, wrap, lambda x, y: F.cross_entropy(model(x), y), optimizer, batches)


def unet(lib: Any, wrap: Wrap) -> Step:
    """A U-Net of three levels (16, 32, 64 channels) on images of 32x32, 4 of them, a mask as the target, Adam."""
    nn, F = lib.nn, lib.nn.functional

    def double(n_in: int, n_out: int) -> Any:
        first = [nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU()]
        return nn.Sequential(*first, nn.Conv2d(n_out, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU())

    class UNet(nn.Module):  # type: ignore[misc, name-defined] # as above
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList([double(3, 16), double(16, 32), double(32, 64)])
            self.ups = nn.ModuleList([nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)])
            self.up = nn.ModuleList([double(64, 32), double(32, 16)])
            self.out = nn.Conv2d(16, 1, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for i, block in enumerate(self.down):
                x = block(x if i == 0 else F.max_pool2d(x, 2))
                kept.append(x)
            kept.pop()
            for larger, block in zip(self.ups, self.up, strict=True):
                x = block(lib.cat([kept.pop(), larger(x)], 1))
            return self.out(x)

    model = filled(lib, UNet())
    rng = np.random.RandomState(1)
    x, y = rng.randn(4, N_UNET, 3, 32, 32).astype("f4"), (rng.rand(4, N_UNET, 1, 32, 32) > 0.5).astype("f4")
    batches = [tensors(lib, *batch) for batch in zip(x, y, strict=True)]
    optimizer = lib.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    return training(lib, wrap, lambda x, y: F.binary_cross_entropy_with_logits(model(x), y), optimizer, batches)
