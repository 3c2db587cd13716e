"""A small GPT that makes up names, trained on generated ones, each at its own length.

Names are made of syllables under a rule of harmony: all vowels of a name are from "aou", or all from "ei". A name that
obeys it shows that the model looks back at the vowels before. Batches are ragged: attention stays inside each name, so
there is neither padding nor a mask for it.

    python examples/gpt_names.py
"""

from __future__ import annotations

import random

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

CONSONANTS, HARMONIES = "bdgklmnrstvz", ("aou", "ei")
LETTERS = "." + "".join(sorted(CONSONANTS + "".join(HARMONIES)))  # "." begins and ends a name
CODE = {letter: i for i, letter in enumerate(LETTERS)}
LONGEST = 12


def make_name(draws: random.Random) -> str:
    vowels = draws.choice(HARMONIES)
    parts = [draws.choice(CONSONANTS) + draws.choice(vowels) for _ in range(draws.randint(2, 5))]
    return "".join(parts) + draws.choice(["", "n", "r"])


def is_harmonious(name: str) -> bool:
    body = name[:-1] if name[-1:] in CONSONANTS else name
    pairs = [body[i : i + 2] for i in range(0, len(body), 2)]
    fits = 2 <= len(pairs) <= 5 and all(len(p) == 2 and p[0] in CONSONANTS and p[1] in "aouei" for p in pairs)
    return fits and any(all(p[1] in vowels for p in pairs) for vowels in HARMONIES)


class Block(nn.Module):
    def __init__(self, dim: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):  # (names, *, dim)
        q, k, v = (
            part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (names, heads, *, dim of a head)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, dim: int = 48, n_heads: int = 4, n_blocks: int = 2) -> None:
        super().__init__()
        self.letter, self.place = nn.Embedding(len(LETTERS), dim), nn.Embedding(LONGEST + 1, dim)
        self.blocks = nn.Sequential(*[Block(dim, n_heads) for _ in range(n_blocks)])
        self.norm, self.score = nn.LayerNorm(dim), nn.Linear(dim, len(LETTERS))

    def forward(self, letters, places):
        return self.score(self.norm(self.blocks(self.letter(letters) + self.place(places))))


@ex.no_grad()
def invent(model: GPT) -> str:
    letters = [0]
    while len(letters) <= LONGEST:
        scores = model(ex.tensor([letters]), ex.arange(len(letters)).unsqueeze(0))[0, -1]
        letters.append(ex.multinomial(scores.softmax(0), 1).item())
        if letters[-1] == 0:
            break
    return "".join(LETTERS[i] for i in letters).strip(".")


def main(n_steps: int = 400, batch_size: int = 32) -> None:
    ex.manual_seed(0)
    draws = random.Random(0)
    model = GPT()
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)

    @ex.compile
    def step(letters, places, following):
        loss = F.cross_entropy(model(letters, places).values(), following.values())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for i in range(1, n_steps + 1):
        coded = [[0, *(CODE[letter] for letter in make_name(draws)), 0] for _ in range(batch_size)]
        places = ex.ragged([list(range(len(name) - 1)) for name in coded])
        loss = step(ex.ragged([name[:-1] for name in coded]), places, ex.ragged([name[1:] for name in coded]))
        schedule.step()
        if i == 1 or i % 100 == 0:
            print(f"step {i:3}  loss {loss.item():.3f}  {', '.join(invent(model) for _ in range(4))}")
    names = [invent(model) for _ in range(100)]
    print(f"{sum(map(is_harmonious, names))} of 100 new names have the syllables and the harmony of vowels")


if __name__ == "__main__":
    main()
