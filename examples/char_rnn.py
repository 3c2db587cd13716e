"""A character RNN on sentences of different length, without padding: it learns to spell, and to agree.

Sentences come from a small grammar ("the cat sees 3 dogs."). A batch is a ragged tensor, so the LSTM reads exactly the
characters that are there. At the end the model writes sentences of its own, character by character, and the program
counts how many of them the grammar could have made.

    python examples/char_rnn.py
"""

from __future__ import annotations

import random
import re

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

ANIMALS = ("cat", "dog", "bird", "horse", "snake")
VERBS = ("see", "hear", "like", "follow")
CHARACTERS = "\n" + "".join(sorted(set("".join(ANIMALS + VERBS) + " the.s23456789")))
CODE = {character: i for i, character in enumerate(CHARACTERS)}
END = 0  # the new line, before and after every sentence
RULE = re.compile(
    rf"(the ({'|'.join(ANIMALS)}) ({'|'.join(VERBS)})s|[2-9] ({'|'.join(ANIMALS)})s ({'|'.join(VERBS)}))"
    rf" (the ({'|'.join(ANIMALS)})|[2-9] ({'|'.join(ANIMALS)})s)\."
)


def sentence(draws: random.Random) -> str:
    """One animal sees, several see."""

    def animals() -> tuple[str, bool]:
        n, name = draws.randint(1, 9), draws.choice(ANIMALS)
        return (f"the {name}", True) if n == 1 or draws.random() < 0.4 else (f"{n} {name}s", False)

    who, is_one = animals()
    return f"{who} {draws.choice(VERBS)}{'s' if is_one else ''} {animals()[0]}."


class Writer(nn.Module):
    def __init__(self, n_hidden: int = 96) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(CHARACTERS), 16)
        self.lstm = nn.LSTM(16, n_hidden, batch_first=True)
        self.score = nn.Linear(n_hidden, len(CHARACTERS))

    def forward(self, characters, state=None):
        states, state = self.lstm(self.embed(characters), state)
        return self.score(states), state


@ex.no_grad()
def write(model: Writer, longest: int = 60) -> str:
    text, state, character = "", None, END
    while len(text) < longest:
        scores, state = model(ex.tensor([[character]]), state)
        character = ex.multinomial(scores[0, 0].softmax(0), 1).item()
        if character == END:
            break
        text += CHARACTERS[character]
    return text


def main(n_steps: int = 300, batch_size: int = 32) -> None:
    ex.manual_seed(0)
    draws = random.Random(0)
    model = Writer()
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    @ex.compile  # sentences of other lengths need no other plan
    def step(before, after):
        scores, _ = model(before)
        loss = F.cross_entropy(scores.values(), after.values())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for i in range(1, n_steps + 1):
        texts = [[END, *(CODE[c] for c in sentence(draws)), END] for _ in range(batch_size)]
        loss = step(ex.ragged([text[:-1] for text in texts]), ex.ragged([text[1:] for text in texts]))
        if i == 1 or i % 50 == 0:
            print(f"step {i:3}  loss {loss.item():.3f}  writes: {write(model)!r}")
    written = [write(model) for _ in range(100)]
    n_right = sum(bool(RULE.fullmatch(text)) for text in written)
    print(f"{n_right} of 100 sentences that it wrote follow the grammar, agreement of verbs included")


if __name__ == "__main__":
    main()
