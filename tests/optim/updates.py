"""A few steps on one number, for comparing an optimizer with its formula."""

from __future__ import annotations

import extempo as ex


def run(cls, gradients, start=1.0, **options):
    p = ex.tensor([start], dtype=ex.float64, requires_grad=True)
    optimizer = cls([p], **options)
    values = []
    for g in gradients:
        p.grad = ex.tensor([g], dtype=ex.float64)
        optimizer.step()
        values.append(p.item())
    return values, optimizer.state[p]


G = [0.5, -0.25, 2.0]
