"""A reader of sequences, one at a time, to be watched while it learns: every sequence draws a graph of its own length.

With `--watch` the loop stands within `ex.studio`, whose address is printed: open it, see the graph change from a
sequence of three to one of seven, pause, insert a layer after `score`, and go on. `extempo studio` with this file does
the same without a line of code. The task: are there more ones than twos in the sequence?

    python examples/watched_reader.py --watch
"""

from __future__ import annotations

import random
import sys
from contextlib import nullcontext

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

LONGEST, N_STEPS, N_TESTS = 9, 3000, 200


class Reader(nn.Module):
    """A recurrent cell, run once for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(4, 4)
        self.cell = nn.GRUCell(4, 12)
        self.score = nn.Linear(12, 2)

    def forward(self, words: list[int]) -> ex.Tensor:
        state = ex.zeros(12)
        for word in words:
            state = self.cell(self.embed(word), state)
        return self.score(state)


def sample(draws: random.Random) -> tuple[list[int], int]:
    """A sequence of ones, twos and threes, and whether it has more ones than twos."""
    words = draws.choices((1, 2, 3), k=draws.randint(1, LONGEST))
    return words, int(words.count(1) > words.count(2))


def main() -> None:
    ex.manual_seed(0)
    draws = random.Random(0)
    model = Reader()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    watching = ex.studio(model, classes=["not more", "more ones"]) if "--watch" in sys.argv else nullcontext()
    with watching:
        total = 0.0
        for step in range(1, N_STEPS + 1):
            words, label = sample(draws)
            loss = F.cross_entropy(model(words), ex.tensor(label))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            if step % 1000 == 0:
                print(f"step {step}: loss {total / 1000:.3f}")
                total = 0.0
    tests = [sample(draws) for _ in range(N_TESTS)]
    with ex.no_grad():
        n_right = sum(int(model(words).argmax().item()) == label for words, label in tests)
    print(f"right for {n_right} of {N_TESTS} new sequences of 1 to {LONGEST} words")


if __name__ == "__main__":
    main()
