"""A network that grows while it trains: it starts with two hidden units and gets more when it stops improving.

New units and layers begin without effect, so the loss does not jump; the optimizer keeps its moments for the old ones;
and the compiled step goes on as it is. The task: which of two spirals does a point belong to?

    python examples/growing_network.py
"""

from __future__ import annotations

import math
from itertools import pairwise

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

MOST_UNITS = 32


def spirals(n: int) -> tuple[ex.Tensor, ex.Tensor]:
    labels = ex.randint(0, 2, (n,))
    turn = ex.rand(n).sqrt() * 3 * math.pi
    angle = turn + labels * math.pi
    points = ex.stack([turn * angle.cos(), turn * angle.sin()], 1) / math.pi
    return points + 0.03 * ex.randn(n, 2), labels


def grow(model: nn.Sequential) -> str:
    """Twice the units in each hidden layer, and a second layer once there are eight."""
    n_units = model[0].out_features
    if n_units == 8 and len(model) == 3:
        nn.surgery.insert_layer(model, 2, nn.Linear(n_units, n_units))  # starts as the identity ...
        nn.surgery.insert_layer(model, 3, nn.ReLU())  # ... and so does relu behind a relu
        return "a second layer"
    linear = [layer for layer in model if isinstance(layer, nn.Linear)]
    for layer, following in pairwise(linear):
        nn.surgery.widen(layer, 2 * n_units, into=[following])
    return f"{2 * n_units} units"


def main(n_steps: int = 2000, patience: int = 100) -> None:
    ex.manual_seed(0)
    points, labels = spirals(400)
    new_points, new_labels = spirals(400)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    @ex.compile
    def step():
        loss = F.cross_entropy(model(points), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    @ex.no_grad()
    def loss_now() -> float:
        return F.cross_entropy(model(points), labels).item()

    @ex.no_grad()
    def accuracy() -> float:
        return (model(new_points).argmax(1) == new_labels).float().mean().item()

    best, since_best = math.inf, 0
    for i in range(1, n_steps + 1):
        loss = step().item()
        since_best += 1
        if loss < 0.9 * best:
            best, since_best = loss, 0
        if since_best >= patience and model[0].out_features < MOST_UNITS:
            n_parameters = sum(p.numel() for p in model.parameters())
            reached, before = accuracy(), loss_now()
            what = grow(model)
            print(f"step {i:4}  {n_parameters:3} parameters, accuracy {reached:4.0%}; grows to {what}:", end=" ")
            print(f"loss {before:.4f} -> {loss_now():.4f}")
            best, since_best = loss, 0
    n_parameters = sum(p.numel() for p in model.parameters())
    print(f"loss {loss:.4f}, accuracy {accuracy():.1%} on 400 new points, with {n_parameters} parameters instead of 12")


if __name__ == "__main__":
    main()
