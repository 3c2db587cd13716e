"""A recursive Tree-LSTM that learns to evaluate arithmetic: the model is plain recursion, written for ONE tree.

A tree is a digit or (left, operator, right), with + and -. The model never sees the rules of arithmetic, only trees
and their values. `ex.batch` runs the same cells of all trees together, whatever their shapes.

    python examples/tree_lstm.py
"""

from __future__ import annotations

import random

import extempo as ex
from extempo import nn, optim

OPERATORS = "+-"


def draw_tree(draws: random.Random, n_leaves: int):
    if n_leaves == 1:
        return draws.randint(0, 9)
    n_left = draws.randint(1, n_leaves - 1)
    return (draw_tree(draws, n_left), draws.choice(OPERATORS), draw_tree(draws, n_leaves - n_left))


def value(tree) -> int:
    if isinstance(tree, int):
        return tree
    left, operator, right = tree
    return value(left) + value(right) if operator == "+" else value(left) - value(right)


def text(tree) -> str:
    return str(tree) if isinstance(tree, int) else f"({text(tree[0])} {tree[1]} {text(tree[2])})"


class Evaluator(nn.Module):
    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.digit = nn.Embedding(10, dim)
        self.cells = nn.ModuleDict({name: nn.NaryTreeLSTMCell(dim, dim, arity=2) for name in ("plus", "minus")})
        self.value = nn.Linear(dim, 1)

    def state(self, tree):
        if isinstance(tree, int):
            return self.cells["plus"].leaf(self.digit(tree))
        left, operator, right = tree
        return self.cells["plus" if operator == "+" else "minus"](self.state(left), self.state(right))

    def forward(self, tree):
        state = self.state(tree)
        return self.value(state.c).squeeze(0)  # the memory is not squashed, so it can count


def main(n_steps: int = 500, batch_size: int = 32) -> None:
    ex.manual_seed(0)
    draws = random.Random(0)
    model = Evaluator()
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    on_all = ex.batch(model)
    held_out = [draw_tree(draws, draws.randint(4, 7)) for _ in range(200)]
    known = set(held_out)

    def mean_error() -> float:
        with ex.no_grad():
            found = ex.stack(on_all(held_out))
        return (found - ex.tensor([float(value(tree)) for tree in held_out])).abs().mean().item()

    mean = sum(map(value, held_out)) / len(held_out)
    guess = sum(abs(value(tree) - mean) for tree in held_out) / len(held_out)
    print(f"always guessing the mean is off by {guess:.2f}")
    for i in range(1, n_steps + 1):
        drawn = [draw_tree(draws, draws.randint(1, 7)) for _ in range(batch_size)]
        trees = [tree for tree in drawn if tree not in known]
        right = ex.tensor([float(value(tree)) for tree in trees])
        loss = (ex.stack(on_all(trees)) - right).abs().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if i == 1 or i % 100 == 0:
            print(f"step {i:3}  loss {loss.item():6.3f}  held-out trees are off by {mean_error():.2f}")
    for tree in held_out[:4]:
        print(f"{text(tree)} = {value(tree)}, the model says {model(tree).item():.1f}")
    print(f"held-out trees of 4 to 7 numbers: off by {mean_error():.2f} on average, guessing by {guess:.2f}")


if __name__ == "__main__":
    main()
