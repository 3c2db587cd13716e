"""Small models, their data and trainers."""

from __future__ import annotations

import extempo as ex
from extempo import nn, optim
from extempo.data import DataLoader, TensorDataset
from extempo.nn import functional as F
from extempo.train import Trainer


def loader(n_batches=3):
    generator = ex.Generator().manual_seed(0)
    x = ex.randn(n_batches * 4, 3, generator=generator)
    return DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 4)


def trainer(callbacks=(), lr=0.1, **options):
    ex.manual_seed(1)
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=lr)
    return Trainer(model, F.cross_entropy, optimizer, callbacks=callbacks, **{"progress": False, **options})
