"""A small network, points to classify, and its trainer."""

from __future__ import annotations

import extempo as ex
from extempo import nn, optim
from extempo.data import DataLoader, TensorDataset
from extempo.nn import functional as F
from extempo.train import Trainer


def loader(n=48, batch_size=8, **options):
    return DataLoader(TensorDataset(*points(n)), batch_size, **options)


def network(seed=1, n_out=3):
    ex.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, n_out))


def points(n=48, n_classes=3):
    generator = ex.Generator().manual_seed(0)
    x = ex.randn(n, 5, generator=generator)
    return x, (x @ ex.randn(5, n_classes, generator=generator)).argmax(1)


def trainer(model=None, loss=F.cross_entropy, lr=0.05, **options):
    model = model or network()
    return Trainer(model, loss, optim.Adam(model.parameters(), lr=lr), **{"progress": False, **options})


def equal(a, b):
    return all(ex.equal(x, y) for x, y in zip(a, b, strict=True))


def weights(model):
    return [p.detach().clone() for p in model.parameters()]
