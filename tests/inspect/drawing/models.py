"""Programs to draw."""

import extempo as ex
from extempo import nn


class Reader(nn.Module):
    """A loop over words."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 3)
        self.cell = nn.GRUCell(3, 4)
        self.score = nn.Linear(4, 2)

    def forward(self, words):
        state = ex.zeros(4)
        for word in words:
            state = self.cell(self.embed(word), state)
        return self.score(state)


class Stack(nn.Module):
    """A list of blocks that are alike."""

    def __init__(self, n):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(n)])

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


class Broken(nn.Module):
    """One whose second layer does not fit."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        hidden = self.body(x)
        return self.head(hidden)


def titles(view):
    return [view.diagram.elements[box].title for box in view.boxes]
