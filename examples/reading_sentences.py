"""A reader of sentences of any length: it goes through the words, then attends over its own rows to answer.

A sentence says who has how many of what, in any order and with words in between ("ann has 4 pears , well , bob has 7
figs"); the question is a name. The model embeds the whole sentence, runs an LSTM over it, and finds the number by
attention written by hand (a product, a softmax, a product). It is written for ONE sentence, without padding and without
a mask; `ex.batch` runs sentences of all lengths together.

    python examples/reading_sentences.py
"""

from __future__ import annotations

import random

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

NAMES = ("ann", "bob", "eve", "joe", "kim", "leo")
FRUITS = ("figs", "pears", "plums", "limes")
FILLERS = (",", "well", "and", "oh", "then")
NUMBERS = tuple(str(n) for n in range(10))
CODE = {word: i for i, word in enumerate((*NUMBERS, *NAMES, *FRUITS, *FILLERS, "has"))}


def draw_sentence(draws: random.Random) -> tuple[list[str], str, int]:
    """Words, the name that is asked for, and the right number."""
    names = draws.sample(NAMES, draws.randint(1, 5))
    has = {name: draws.randrange(10) for name in names}
    words: list[str] = []
    for name, n in has.items():
        words += draws.choices(FILLERS, k=draws.randint(0, 3))
        words += [name, "has", str(n), draws.choice(FRUITS)]
    asked = draws.choice(names)
    return words, asked, has[asked]


class Reader(nn.Module):
    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(CODE), dim)
        self.lstm = nn.LSTM(dim, dim, bidirectional=True)
        self.key = nn.Linear(2 * dim, dim)
        self.out = nn.Linear(2 * dim, len(NUMBERS))

    def attention(self, words: ex.Tensor, asked: ex.Tensor) -> tuple[ex.Tensor, ex.Tensor]:
        """What the LSTM makes of each word, and how much each counts for the question."""
        states, _ = self.lstm(self.embed(words))  # (length, 2 * dim), of this sentence's own length
        scores = self.embed(asked) @ self.key(states).T  # (1, length)
        return states, scores.softmax(1)

    def forward(self, words: ex.Tensor, asked: ex.Tensor) -> ex.Tensor:
        states, weights = self.attention(words, asked)
        return self.out(weights @ states)  # (1, 10)


def tensors(sentences: list[tuple[list[str], str, int]]) -> tuple[list[ex.Tensor], list[ex.Tensor], ex.Tensor]:
    words, asked, numbers = zip(*sentences, strict=True)
    codes = [ex.tensor([CODE[word] for word in one]) for one in words]
    return codes, [ex.tensor([CODE[name]]) for name in asked], ex.tensor(numbers)


def main(n_steps: int = 300, batch_size: int = 32) -> None:
    ex.manual_seed(0)
    draws = random.Random(0)
    model = Reader()
    answer_all = ex.batch(model)
    optimizer = optim.Adam(model.parameters(), lr=0.005)
    for i in range(1, n_steps + 1):
        words, asked, numbers = tensors([draw_sentence(draws) for _ in range(batch_size)])
        loss = F.cross_entropy(ex.cat(answer_all(words, asked)), numbers)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 50 == 0:
            print(f"step {i:3}  loss {loss.item():.3f}")
    stats = answer_all.stats()
    print(f"the last step: {stats['nodes']} calls of {stats['samples']} sentences in {stats['launches']} batches")

    held_out = [draw_sentence(draws) for _ in range(200)]
    words, asked, numbers = tensors(held_out)
    with ex.no_grad():
        right = ex.cat(answer_all(words, asked)).argmax(1) == numbers
    for (sentence, name, _), is_right in zip(held_out[:2], right.tolist(), strict=False):
        print(f"{name}? {' '.join(sentence)}: {'right' if is_right else 'wrong'}")
    print(f"right for {right.sum().item()} of 200 new sentences of 4 to {max(map(len, words))} words")


if __name__ == "__main__":
    main()
