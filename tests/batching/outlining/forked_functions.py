"""Functions that call themselves and ask for values: those whose calls are forks, and those that must stay in order.

Each grows a tree from a vector: `limits` says at each level how large the sum of a child must be to have children.
"""

from __future__ import annotations

from typing import Any

import extempo as ex
from extempo import nn
from extempo.nn import functional as F

N = 4
ex.manual_seed(3)
CELL = nn.GRUCell(N, N)
MORE = nn.Linear(N, 1)
DROP = nn.Dropout(0.5)
WEIGHT = nn.Parameter(ex.randn(N, N))
PARAMETERS = [*CELL.parameters(), *MORE.parameters(), WEIGHT]
SEEN: list[Any] = []


def grow(h: Any, limits: Any, nodes: Any, chances: Any) -> None:
    nodes.append(ex.tanh(h @ WEIGHT))
    if not limits:
        return
    before = ex.zeros(N)
    for limit in limits[0]:
        before = CELL(h, before)
        chance = ex.sigmoid(MORE(before))
        chances.append(chance)
        if chance.item() < limit:
            break
        grow(before + h, limits[1:], nodes, chances)


def by_appending(h, limits):
    nodes, chances = [], []
    grow(h, limits, nodes, chances)
    return ex.stack(nodes), ex.stack(chances)


def by_closure(h, limits):
    nodes, chances = [], []

    def visit(h, limits):
        nodes.append(ex.tanh(h @ WEIGHT))
        before = ex.zeros(N)
        for limit in limits[0] if limits else []:
            before = CELL(h, before)
            chance = ex.sigmoid(MORE(before))
            chances.append(chance)
            if chance < limit:
                break
            visit(before + h, limits[1:])

    visit(h, limits)
    return ex.stack(nodes), ex.stack(chances)


class Grower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.more, self.weight = CELL, MORE, WEIGHT

    def scored(self, h):
        return ex.sigmoid(self.more(h))

    def grow(self, h, limits, *, nodes, chances):
        nodes.append(ex.tanh(h @ self.weight))
        if len(limits) == 0:
            return
        before = ex.zeros(N)
        k = 0
        while k < len(limits[0]):
            before = self.cell(h, before)
            chance = self.scored(before)
            chances.append(chance)
            if float(chance) < limits[0][k]:
                break
            self.grow(before + h, limits[1:], chances=chances, nodes=nodes)
            k = k + 1

    def forward(self, h, limits):
        nodes, chances = [], []
        self.grow(h, limits, nodes=nodes, chances=chances)
        return ex.stack(nodes), ex.stack(chances)


def own_lists_grow(h, limits, nodes):
    children = []
    before = ex.zeros(N)
    for limit in limits[0] if limits else []:
        before = CELL(h, before)
        children.append(before + h)
        if ex.sigmoid(MORE(before)).item() < limit:
            break
    nodes.append(ex.tanh(h @ WEIGHT))
    for child in children:
        own_lists_grow(child, limits[1:], nodes)


def own_lists(h, limits):
    nodes = []
    own_lists_grow(h, limits, nodes)
    return ex.stack(nodes)


FORKING = [by_appending, by_closure, Grower(), own_lists]


# ---- what stays in order


def prints_grow(h, limits, nodes):
    SEEN.append(len(limits))
    grow_on(prints_grow, h, limits, nodes)


def grow_on(fn, h, limits, nodes):
    nodes.append(ex.tanh(h @ WEIGHT))
    for limit in limits[0] if limits else []:
        h = CELL(h, h)
        if MORE(h).sum().item() < limit:
            break
        fn(h, limits[1:], nodes)


def reads_its_list(h, limits, nodes):
    nodes.append(ex.tanh(h @ WEIGHT))
    for limit in limits[0] if limits else []:
        h = CELL(h, h) + 0.01 * len(nodes)
        if ex.sigmoid(MORE(h)).item() < limit:
            break
        reads_its_list(h, limits[1:], nodes)


def reads_last(h, limits, nodes):
    nodes.append(ex.tanh(h @ WEIGHT))
    for limit in limits[0] if limits else []:
        h = CELL(h, nodes[-1])
        if ex.sigmoid(MORE(h)).item() < limit:
            break
        reads_last(h, limits[1:], nodes)


def draws(h, limits, nodes):
    nodes.append(F.dropout(ex.tanh(h @ WEIGHT), 0.5))
    for limit in limits[0] if limits else []:
        h = CELL(h, h)
        if ex.sigmoid(MORE(h)).item() < limit:
            break
        draws(h, limits[1:], nodes)


def draws_in_a_layer(h, limits, nodes):
    nodes.append(DROP(ex.tanh(h @ WEIGHT)))
    for limit in limits[0] if limits else []:
        h = CELL(h, h)
        if ex.sigmoid(MORE(h)).item() < limit:
            break
        draws_in_a_layer(h, limits[1:], nodes)


def extends(h, limits, nodes):
    nodes += [ex.tanh(h @ WEIGHT)]
    for limit in limits[0] if limits else []:
        h = CELL(h, h)
        if ex.sigmoid(MORE(h)).item() < limit:
            break
        extends(h, limits[1:], nodes)


def writes(h, limits, nodes):
    total = ex.zeros(N)
    total.add_(h)
    nodes.append(ex.tanh(total @ WEIGHT))
    for limit in limits[0] if limits else []:
        h = CELL(h, h)
        if ex.sigmoid(MORE(h)).item() < limit:
            break
        writes(h, limits[1:], nodes)


def swallows(h, limits, nodes):
    try:
        nodes.append(ex.tanh(h @ WEIGHT))
        for limit in limits[0] if limits else []:
            h = CELL(h, h)
            if ex.sigmoid(MORE(h)).item() < limit:
                raise ValueError("enough")
            swallows(h, limits[1:], nodes)
    except ValueError:
        SEEN.append("enough")


def counts(h, limits, nodes, counter=SEEN):
    counter.append(1)
    nodes.append(ex.tanh(h @ WEIGHT) * len(counter))
    for limit in limits[0] if limits else []:
        h = CELL(h, h)
        if ex.sigmoid(MORE(h)).item() < limit:
            break
        counts(h, limits[1:], nodes)


def pops(h, limits, nodes):
    nodes.append(ex.tanh(h @ WEIGHT))
    nodes.append(h)
    for limit in limits[0] if limits else []:
        h = CELL(h, h)
        if ex.sigmoid(MORE(h)).item() < limit:
            nodes.pop()
            break
        pops(h, limits[1:], nodes)


def returns(h, limits, nodes):
    nodes.append(ex.tanh(h @ WEIGHT))
    for limit in limits[0] if limits else []:
        h = CELL(h, h)
        if ex.sigmoid(MORE(h)).item() < limit:
            return h
        h = h + returns(h, limits[1:], nodes)
    return h


IN_ORDER = [
    *(
        prints_grow,
        reads_its_list,
        reads_last,
        draws,
        draws_in_a_layer,
        extends,
        writes,
        swallows,
        counts,
        pops,
        returns,
    )
]
