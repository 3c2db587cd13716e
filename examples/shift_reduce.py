"""A shift-reduce parser that branches on its own prediction, also while it learns.

Expressions such as x + x * x ^ x are read from left to right. At each step the parser scores two actions: shift the
next word onto the stack, or reduce the top three (x op x) to one. It then does what IT thinks best, right or wrong, and
the loss says what would have been right there. So what the next op is depends on a value just computed; `ex.batch` runs
the parsers of many expressions together all the same.

    python examples/shift_reduce.py
"""

from __future__ import annotations

import random

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

WORDS = ("x", "+", "*", "^")
STRENGTH = {"+": 1, "*": 2, "^": 3}
SHIFT, REDUCE = 0, 1


def draw_expression(draws: random.Random, n_operators: int) -> str:
    return "x" + "".join(f" {draws.choice('+*^')} x" for _ in range(n_operators))


def right_action(stack: list, following: str) -> int:
    """Reduce when the operator on the stack binds at least as strongly as the next one; ^ binds to the right."""
    operator = stack[-2]
    if operator == following == "^":
        return SHIFT
    return REDUCE if STRENGTH[operator] >= STRENGTH[following] else SHIFT


class Parser(nn.Module):
    """Written for one expression: gives the tree that it built, and the loss of each of its decisions."""

    def __init__(self, dim: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), dim)
        self.compose = nn.Sequential(nn.Linear(3 * dim, dim), nn.Tanh())
        self.decide = nn.Sequential(nn.Linear(4 * dim, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, expression):
        rest = expression.split()
        trees, states, losses = [], [], []
        while rest or len(trees) > 1:
            action = SHIFT if rest else REDUCE
            if rest and len(trees) >= 3 and rest[0] in STRENGTH:  # only here there is something to decide
                scores = self.decide(ex.cat([*states[-3:], self.embed(WORDS.index(rest[0]))]))
                losses.append(F.cross_entropy(scores, right_action(trees, rest[0])))
                action = scores.argmax().item()  # its own prediction
            if action == SHIFT:
                states.append(self.embed(WORDS.index(rest[0])))
                trees.append(rest.pop(0))
            else:
                states[-3:] = [self.compose(ex.cat(states[-3:]))]
                trees[-3:] = [tuple(trees[-3:])]
        return trees[0], losses


def right_tree(expression: str):
    rest, trees = expression.split(), []
    while rest or len(trees) > 1:
        decides = rest and len(trees) >= 3 and rest[0] in STRENGTH
        if not rest or (decides and right_action(trees, rest[0]) == REDUCE):
            trees[-3:] = [tuple(trees[-3:])]
        else:
            trees.append(rest.pop(0))
    return trees[0]


def text(tree) -> str:
    return tree if isinstance(tree, str) else f"({' '.join(map(text, tree))})"


def main(n_steps: int = 40, batch_size: int = 24) -> None:
    ex.manual_seed(0)
    draws = random.Random(0)
    model = Parser()
    optimizer = optim.Adam(model.parameters(), lr=0.005)
    parse_all = ex.batch(model)
    held_out = [draw_expression(draws, draws.randint(4, 8)) for _ in range(200)]
    known = set(held_out)

    def n_right() -> int:
        with ex.no_grad():
            found = [tree for tree, _ in parse_all(held_out)]
        return sum(tree == right_tree(words) for words, tree in zip(held_out, found, strict=True))

    for i in range(n_steps + 1):
        if i % 10 == 0:
            print(f"step {i:3}  {n_right()} of {len(held_out)} held-out expressions have the right tree")
        drawn = [draw_expression(draws, draws.randint(2, 7)) for _ in range(batch_size)]
        results = parse_all([words for words in drawn if words not in known])
        losses = [loss for _, of_one in results for loss in of_one]
        ex.stack(losses).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    for words in held_out[:3]:
        print(f"{words}  ->  {text(model(words)[0])}")
    print(f"{n_right()} of {len(held_out)} held-out expressions are parsed right in the end")


if __name__ == "__main__":
    main()
