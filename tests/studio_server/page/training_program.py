"""What the browser tests watch: a classifier of sequences that trains for ever, and writes down what it computed.

Called with a folder: `steps.jsonl` there has a line for every step, `epoch_3.json` the scores at the end of an epoch;
the file `fail` makes it raise.
"""

import json
import random
import sys
import time
from pathlib import Path

import extempo as ex
from extempo import nn

PAUSE = 0.01  # seconds after each step: the tests look at a program, not at how fast it is
PER_EPOCH = 40
N_HELD_OUT = 100
FLIPPED = 0.12  # the share of samples whose class is wrong: no model is perfect


class Reader(nn.Module):
    """Whether a sequence has more large numbers than small ones."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 3)
        self.cell = nn.GRUCell(3, 8)
        self.body = nn.Sequential(nn.Linear(8, 8))
        self.score = nn.Linear(8, 2)

    def forward(self, words):
        state = ex.zeros(8)
        for word in words:
            state = self.cell(self.embed(word), state)
        return self.score(self.body(state))


def samples():
    """Sequences of length 3 and of length 7 in turn, each with its class."""
    generator = random.Random(0)
    while True:
        for length in (3, 7):
            words = [generator.randint(1, 10) for _ in range(length)]
            is_high = sum(word > 5 for word in words) * 2 > length
            yield words, int(is_high != (generator.random() < FLIPPED))


def train(folder):
    ex.manual_seed(0)
    model = Reader()
    optimizer = ex.optim.Adam(model.parameters(), lr=0.005)
    held_out = [sample for sample, _ in zip(samples(), range(N_HELD_OUT), strict=False)]
    with (
        ex.studio(model, classes=["low", "high"], name="reader") as watched,
        open(folder / "steps.jsonl", "w") as written,
    ):
        for number, (words, label) in enumerate(samples(), 1):
            if (folder / "fail").exists():
                model.score(ex.zeros(5))
            loss = ex.nn.functional.cross_entropy(model(words).unsqueeze(0), ex.tensor([label]))
            optimizer.zero_grad()
            loss.backward()
            value = loss.item()
            optimizer.step()
            written.write(json.dumps({"step": number, "loss": value, "lr": optimizer.param_groups[0]["lr"]}) + "\n")
            written.flush()
            if number % PER_EPOCH == 0:
                with ex.no_grad():
                    scores = ex.stack([model(words) for words, _ in held_out])
                truth = [label for _, label in held_out]
                right = float((scores.argmax(1) == ex.tensor(truth)).float().mean())
                said = {"right": right, "truth": truth, "positive": scores.softmax(1)[:, 1].tolist()}
                (folder / f"epoch_{number // PER_EPOCH}.json").write_text(json.dumps(said))
                watched.epoch(train_loss=value, valid_accuracy=right)
                watched.scores(truth, scores.softmax(1).tolist())
            time.sleep(PAUSE)


if __name__ == "__main__":
    train(Path(sys.argv[1]))
