"""Training steps to compare."""

from __future__ import annotations

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

QUICK = {"steps": 8, "warm_up": 8, "rounds": 3, "progress": False}


def batches(lengths=(6, 6, 6, 6)):
    generator = ex.random.Generator().manual_seed(5)
    drawn = [ex.randn(n, 4, generator=generator) for n in lengths]
    return [(x, (x.sum(1) > 0).long()) for x in drawn]


def training(optimizer=optim.Adam, dropout=0.0):
    """A small model, its optimizer, and a step that trains it."""
    ex.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 2))
    made = optimizer(model.parameters(), lr=0.05)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        made.step()
        made.zero_grad()
        return loss

    return model, made, step


shared = nn.Linear(2, 2)


def step_of(model, name="step", lr=0.05):
    optimizer = optim.Adam(model.parameters(), lr=lr)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    step.__name__ = name
    return step
