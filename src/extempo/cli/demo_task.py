"""What `extempo demo` learns: sequences of any length in five classes, and a model written for ONE sequence.

Read `Classifier` as a first example: its loop runs once per word, so every sequence draws a graph of its own length.
The task: words are 1 to 10, and the class of a sequence is the group (1-2, 3-4, 5-6, 7-8, 9-10) of its largest word.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import extempo as ex
from extempo import metrics, nn
from extempo.data import DataLoader
from extempo.nn import functional as F
from extempo.optim import Adam
from extempo.train import Trainer

GROUPS = ("1-2", "3-4", "5-6", "7-8", "9-10")
N_CLASSES = len(GROUPS)
N_WORDS = 2 * N_CLASSES + 1  # 0 is the word that padding would use
LONGEST = 8
N_FEATURES, N_HIDDEN = 3, 16
N_TRAIN, N_HELD_OUT = 512, 200
BATCH_SIZE = 16
FIRST_BATCH = ([1, 2, 3], [4, 5], [6, 7, 8, 9], [10])

Example = tuple[list[int], int]


class Classifier(nn.Module):
    """An embedding, a recurrent cell run over the words of one sequence, and a score for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(N_WORDS, N_FEATURES)
        self.cell = nn.GRUCell(N_FEATURES, N_HIDDEN)
        self.score = nn.Linear(N_HIDDEN, N_CLASSES)

    def states(self, words: Sequence[int]) -> list[ex.Tensor]:
        """The state after each word."""
        state, states = ex.zeros(N_HIDDEN), []
        for word in words:
            state = self.cell(self.embed(word), state)
            states.append(state)
        return states

    def forward(self, words: Sequence[int]) -> ex.Tensor:
        return self.score(self.states(words)[-1])


def class_of(words: Sequence[int]) -> int:
    """The right answer."""
    return (max(words) - 1) // 2


def sequences(seed: int) -> tuple[list[Example], list[Example]]:
    """Sequences to learn from, the first batch among them, and others to be held out: no sequence is there twice."""
    draws = random.Random(seed)
    made = {tuple(words): None for words in FIRST_BATCH}
    while len(made) < N_TRAIN + N_HELD_OUT:
        top = 2 * draws.randint(1, N_CLASSES)
        words = [draws.randint(1, top) for _ in range(draws.randint(1, LONGEST))]
        words[draws.randrange(len(words))] = top - draws.randint(0, 1)  # so that classes are about equally frequent
        made[tuple(words)] = None
    examples = [(list(words), class_of(words)) for words in made]
    return examples[:N_TRAIN], examples[N_TRAIN:]


def batches(examples: list[Example], size: int, shuffle: bool = False) -> DataLoader[Any]:
    """Batches (sequences, classes), as plain lists."""
    return DataLoader(examples, batch_size=size, shuffle=shuffle, collate_fn=_columns)


def _columns(examples: list[Example]) -> tuple[list[list[int]], list[int]]:
    return [words for words, _ in examples], [label for _, label in examples]


def trainer_of(model: Classifier) -> Trainer:
    """Trains the model, which is written for one sequence, on many at a time."""
    return Trainer(
        model,
        F.cross_entropy,
        Adam(model.parameters(), lr=0.02),
        metrics=[metrics.Accuracy()],
        batch=True,
        compile=False,  # ex.batch makes plans itself
        progress=False,
    )
