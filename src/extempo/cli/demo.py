"""`extempo demo`: learn to classify sequences of any length, with a model written for ONE sequence.

Read `Classifier` as a first example: its loop runs once per word, so every sequence draws a graph of its own length;
there is no padding and no mask. The task: a sequence holds commands (words 0 to 3) among filler words; its class is the
last command. The same seed gives the same numbers on every run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import extempo as ex
from extempo import nn
from extempo.data import DataLoader
from extempo.nn import functional as F
from extempo.optim import Adam

N_COMMANDS = 4
N_WORDS = 10
N_TRAIN, N_TEST = 256, 128
SHORTEST, LONGEST = 1, 10
N_HIDDEN = 24
BATCH_SIZE = 16
N_EPOCHS = 5

Example = tuple[list[int], int]


class Classifier(nn.Module):
    """An embedding, a recurrent cell run over the words of one sequence, and a score for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(N_WORDS, N_HIDDEN)
        self.cell = nn.GRUCell(N_HIDDEN, N_HIDDEN)
        self.score = nn.Linear(N_HIDDEN, N_COMMANDS)

    def forward(self, words: Sequence[int]) -> ex.Tensor:
        state = ex.zeros(N_HIDDEN)
        for word in words:
            state = self.cell(self.embed(word), state)
        return self.score(state)


def sequences(n: int) -> list[Example]:
    """Random sequences of different lengths, each with at least one command, and their classes."""
    made: list[Example] = []
    while len(made) < n:
        length = ex.randint(SHORTEST, LONGEST + 1, (1,)).item()
        words: list[int] = ex.randint(0, N_WORDS, (length,)).tolist()
        commands = [word for word in words if word < N_COMMANDS]
        if commands:
            made.append((words, commands[-1]))
    return made


def accuracy(model: Classifier, examples: list[Example]) -> float:
    """The share of sequences that the model classifies right."""
    with ex.no_grad():
        return sum(model(words).argmax().item() == label for words, label in examples) / len(examples)


def train(say: Callable[[str], None]) -> Classifier:
    """Train the classifier, saying loss and held-out accuracy after each epoch."""
    ex.manual_seed(0)
    examples, held_out = sequences(N_TRAIN), sequences(N_TEST)
    loader: DataLoader[list[Example]] = DataLoader(examples, batch_size=BATCH_SIZE, shuffle=True, collate_fn=list)
    model = Classifier()
    optimizer = Adam(model.parameters(), lr=0.01)
    n_parameters = sum(p.numel() for p in model.parameters())
    say(f"{N_TRAIN} sequences of {SHORTEST} to {LONGEST} words, {N_COMMANDS} classes; {n_parameters} parameters")
    say(f"untrained              accuracy {accuracy(model, held_out):4.0%}   on {N_TEST} held-out sequences")
    for epoch in range(1, N_EPOCHS + 1):
        started, total = time.perf_counter(), 0.0
        for batch in loader:
            loss = ex.stack([F.cross_entropy(model(words), label) for words, label in batch]).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item() * len(batch)
        seconds = time.perf_counter() - started
        say(f"epoch {epoch}   loss {total / N_TRAIN:.4f}   accuracy {accuracy(model, held_out):4.0%}   {seconds:.1f} s")
    return model


def run(say: Callable[[str], None]) -> None:
    """Train, then show what the model makes of sequences of different lengths; `say` gets each line as it is known."""
    say("Learning to name the last command (words 0-3) in sequences of any length.")
    say("The model is written for one sequence: no padding, no masks, no batching.")
    model = train(say)
    say("")
    for words in ([2], [3, 9, 0, 7], [1, 5, 8, 6, 4, 9, 7, 7]):
        with ex.no_grad():
            chances = model(words).softmax(0)
        best = chances.argmax().item()
        say(f"{words!s:26} -> class {best} ({chances[best].item():.0%} sure)")
    words = [3, 9]
    n_nodes = [len(ex.Graph.of(model(words * times))) for times in (1, 2, 3)]
    say(f"graphs drawn for 2, 4 and 6 words: {', '.join(map(str, n_nodes))} nodes, freed after each step")
