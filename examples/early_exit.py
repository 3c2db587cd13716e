"""A reader that stops when it is sure, exported with its loop: the program decides at every step whether to go on.

Which of two noisy sources do the numbers come from? The model reads them one by one and stops as soon as its score is
large enough. Its forward is a plain Python loop; `ex.program` keeps it, the program goes into a file, and what comes
out of the file needs no class and stops where the model does.

    python examples/early_exit.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

LENGTH = 60  # of the sequences that it is trained on


def numbers(n_sequences: int, length: int) -> tuple[ex.Tensor, ex.Tensor]:
    """Noise around 0.35 or -0.35, (sequence, time), and from which source each sequence is."""
    labels = ex.randint(0, 2, (n_sequences,))
    return ex.randn(n_sequences, length) + (0.7 * labels - 0.35).unsqueeze(1), labels


class Reader(nn.Module):
    def __init__(self, n_hidden: int = 16, sure: float = 3.0) -> None:
        super().__init__()
        self.cell = nn.GRUCell(1, n_hidden)
        self.score = nn.Linear(n_hidden, 1)
        self.n_hidden = n_hidden
        self.sure = sure

    def all_scores(self, batch: ex.Tensor) -> ex.Tensor:
        """The score after every step of every sequence, for training: (sequence, time)."""
        state, scores = ex.zeros(len(batch), self.n_hidden), []
        for column in batch.T:
            state = self.cell(column.unsqueeze(1), state)
            scores.append(self.score(state)[:, 0])
        return ex.stack(scores, 1)

    def forward(self, values: ex.Tensor) -> tuple[ex.Tensor, ex.Tensor]:
        """The score of one sequence (time,), and how many of its numbers were read."""
        state, score, n_read = ex.zeros(self.n_hidden), ex.zeros(()), ex.tensor(0)
        while n_read < values.shape[0] and score.abs() < self.sure:
            state = self.cell(values[n_read].reshape(1), state)
            score = self.score(state)[0]
            n_read = n_read + 1
        return score, n_read


def main(n_steps: int = 150) -> None:
    ex.manual_seed(0)
    model = Reader()
    optimizer = optim.Adam(model.parameters(), lr=0.02)

    @ex.compile
    def step(batch, labels):
        scores = model.all_scores(batch)
        loss = F.binary_cross_entropy_with_logits(scores, labels.float().unsqueeze(1).expand_as(scores))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(1, n_steps + 1):
        loss = step(*numbers(64, LENGTH))
        if i % 50 == 0:
            print(f"step {i:3}  loss {loss.item():.3f}")

    model.eval()
    program = ex.program(model, numbers(1, 20)[0][0], dynamic={"values": {0: "time"}})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reader.extempo"
        program.save(path)
        loaded = ex.load_program(path)

    sequences, labels = numbers(200, 2 * LENGTH)
    results = [loaded(sequence) for sequence in sequences]
    n_right = sum(int((score > 0).item() == label.item()) for (score, _), label in zip(results, labels, strict=True))
    n_read = sum(n.item() for _, n in results) / len(results)
    with ex.no_grad():
        n_same = sum(int(model(s)[1].item() == n.item()) for s, (_, n) in zip(sequences, results, strict=True))
    print(f"the program from the file is right for {n_right} of 200 sequences, after {n_read:.0f} of 120 numbers,")
    print(f"and stops where the model does in {n_same} of them")


if __name__ == "__main__":
    main()
