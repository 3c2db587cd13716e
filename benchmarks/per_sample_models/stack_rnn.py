"""An RNN with a stack: after each word it pushes its state or pops, by what it has computed; the top is an input."""

from __future__ import annotations

from typing import Any

from .row import N_CLASSES, N_WORDS, Loss, Row, padded_sentences, sentence

N_IN, N_HIDDEN, PUSH = 32, 64, 0


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class StackReader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(N_WORDS, N_IN)
            self.cell = nn.GRUCell(N_IN + N_HIDDEN, N_HIDDEN)
            self.action = nn.Linear(N_HIDDEN, 2)
            self.out = nn.Linear(N_HIDDEN, N_CLASSES)

        def forward(self, words: Any, label: Any) -> Any:
            empty = h = lib.zeros(N_HIDDEN)
            stack: list[Any] = []
            for x in self.embedding(words):
                h = self.cell(lib.cat([x, stack[-1] if stack else empty]), h)
                actions = F.softmax(self.action(h), dim=-1)
                if actions.argmax().item() == PUSH:
                    stack.append(h * actions[PUSH])
                elif stack:
                    stack.pop()
            return F.cross_entropy(self.out(h), label)

    return StackReader()


def by_hand(lib: Any, model: Any) -> Loss:
    """Word after word of all sentences. Stacks hold turns; what was pushed in them is picked from all that was."""
    F = lib.nn.functional

    def loss_of(words: Any, lengths: Any, labels: Any) -> Any:
        n = len(words)
        lines = lib.arange(n)
        stacks: list[list[int]] = [[0] for _ in range(n)]
        h = lib.zeros(n, N_HIDDEN)
        pushed, states = [h], []
        for t, x in enumerate(model.embedding(words.t()), 1):
            tops = lib.tensor([stack[-1] for stack in stacks])
            h = model.cell(lib.cat([x, lib.cat(pushed)[tops * n + lines]], 1), h)
            actions = F.softmax(model.action(h), 1)
            for stack, action in zip(stacks, actions.argmax(1).tolist(), strict=True):
                if action == PUSH:
                    stack.append(t)
                elif len(stack) > 1:
                    stack.pop()
            pushed.append(h * actions[:, PUSH, None])
            states.append(h)
        return F.cross_entropy(model.out(lib.stack(states)[lengths - 1, lines]), labels)

    return loss_of


ROWS = [Row("stack_rnn", __doc__, model, sentence, (5, 40), by_hand, padded_sentences)]
