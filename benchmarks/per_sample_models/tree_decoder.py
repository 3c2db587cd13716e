"""A doubly recurrent decoder grows a tree from a code, top down (Alvarez-Melis and Jaakkola 2017): after each child it
decides by what it has computed whether there is another one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import Loss, Row, Sample

N_IN, N_HIDDEN, N_OUT, MOST_CHILDREN, DEEPEST = 32, 64, 8, 3, 4


def draw(rng: Any, depth: int) -> Sample:
    """A code, what nodes are to be like, and a number for each level and child: a tree goes on if it is surer."""
    limits = rng.uniform(0.0, 0.65, (DEEPEST, MOST_CHILDREN))
    limits[depth:] = 2.0
    return rng.randn(N_IN).astype("f4"), rng.randn(N_OUT).astype("f4"), limits.tolist()


def model(lib: Any) -> Any:
    nn = lib.nn

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Linear(N_IN, N_HIDDEN)
            self.sibling = nn.GRUCell(N_HIDDEN, N_HIDDEN)
            self.child = nn.GRUCell(N_HIDDEN, N_HIDDEN)
            self.more = nn.Linear(N_HIDDEN, 1)
            self.out = nn.Linear(N_HIDDEN, N_OUT)

        def grow(self, h: Any, limits: list[list[float]], nodes: list[Any], chances: list[Any]) -> None:
            nodes.append(self.out(h))
            if not limits:
                return
            before = lib.zeros(N_HIDDEN)
            for limit in limits[0]:
                before = self.sibling(h, before)
                chance = lib.sigmoid(self.more(before))
                chances.append(chance)
                if chance.item() < limit:
                    break
                self.grow(self.child(before, h), limits[1:], nodes, chances)

        def forward(self, code: Any, wanted: Any, limits: list[list[float]]) -> Any:
            nodes: list[Any] = []
            chances: list[Any] = []
            self.grow(lib.tanh(self.enter(code)), limits, nodes, chances)
            return ((lib.stack(nodes) - wanted) ** 2).mean() + lib.stack(chances).mean()

    return Decoder()


def collate(samples: list[Sample]) -> Sample:
    codes, wanted, limits = zip(*samples, strict=True)
    return np.stack(codes), np.stack(wanted), np.array(limits, "f4")


def by_hand(lib: Any, model: Any) -> Loss:
    """Level by level: all nodes of all trees that have a first child, of these all that have a second, and so on."""

    def loss_of(codes: Any, wanted: Any, limits: Any) -> Any:
        n = len(codes)
        h, owner = lib.tanh(model.enter(codes)), lib.arange(n)
        states, state_owners, chances, chance_owners = [h], [owner], [], []
        for level in range(DEEPEST):
            before, below, owners_below = lib.zeros(len(h), N_HIDDEN), [], []
            for k in range(MOST_CHILDREN):
                before = model.sibling(h, before)
                chance = lib.sigmoid(model.more(before))[:, 0]
                chances.append(chance)
                chance_owners.append(owner)
                goes_on = (chance >= limits[owner, level, k]).nonzero()[:, 0]
                h, before, owner = h[goes_on], before[goes_on], owner[goes_on]
                below.append(model.child(before, h))
                owners_below.append(owner)
            h, owner = lib.cat(below), lib.cat(owners_below)
            states.append(h)
            state_owners.append(owner)
            if not len(h):
                break

        def mean(values: Any, owner: Any) -> Any:
            counts = lib.bincount(owner, minlength=n)
            return (values / counts[owner]).sum() / n

        owner = lib.cat(state_owners)
        errors = ((model.out(lib.cat(states)) - wanted[owner]) ** 2).mean(1)
        return mean(errors, owner) + mean(lib.cat(chances), lib.cat(chance_owners))

    return loss_of


ROWS = [Row("tree_decoder", __doc__, model, draw, (2, DEEPEST), by_hand, collate)]
