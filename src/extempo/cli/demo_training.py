"""The stages of `extempo demo` that learn and predict."""

from __future__ import annotations

from collections.abc import Iterator

import extempo as ex
from extempo.cli import demo_pictures as pictures
from extempo.cli import demo_task as task
from extempo.cli.demo_stages import Stage, Verbatim
from extempo.cli.demo_task import Classifier, Example
from extempo.inspect import Column, Table, curve, sparkline, trace
from extempo.inspect.tables import bytes_text, seconds_text
from extempo.train import Callback, Trainer
from extempo.train.progress import Bar

_BAR = 30  # characters of a bar that stands for 100%


def training(model: Classifier, examples: list[Example], held_out: list[Example], n_epochs: int) -> Iterator[Stage]:
    """Epoch by epoch; accuracy is on the sequences held out."""
    trainer = task.trainer_of(model)
    train, valid = task.batches(examples, task.BATCH_SIZE, shuffle=True), task.batches(held_out, len(held_out))
    before = trainer.evaluate(valid)
    yield Stage(
        "untrained",
        f"6  Training, {n_epochs} epochs of {len(train)} batches",
        "",
        "",
        [
            "Each batch runs as one by ex.batch, sequences of any length together. Valid loss and accuracy are on "
            "those held out.",
            f"untrained{'':14}(valid {before['loss']:.4f})  accuracy {before['accuracy']:4.0%}",
        ],
        {"valid_loss": before["loss"], "valid_accuracy": before["accuracy"]},
    )
    for epoch in range(1, n_epochs + 1):
        with Bar(f"epoch {epoch}", len(train), shown=True) as bar:
            trainer.callbacks = [_Advancing(bar)]
            history = trainer.fit(train, valid, epochs=epoch)
        if trainer.stop is not None:
            raise KeyboardInterrupt  # fit has ended cleanly, and the tour ends here, too
        record, said = history.records[-1], history.observation()
        line = (
            f"epoch {epoch}    loss {record['train_loss']:.4f} (valid {record['valid_loss']:.4f})  "
            f"accuracy {record['valid_accuracy']:4.0%}"
        )
        cost = f"{seconds_text(record['seconds'])}, peak {bytes_text(record['peak_bytes'])}"
        yield Stage("epoch", "", "", "", [line, f"  {cost}. {said}"], {**record, "observation": said})
    losses, accuracies = trainer.history["valid_loss"], trainer.history["valid_accuracy"]
    yield Stage(
        "training",
        "",
        "",
        "",
        [
            Verbatim(f"valid loss {before['loss']:.2f} {sparkline([before['loss'], *losses])} {losses[-1]:.2f}"),
            trainer.history.plot(),
            curve({"accuracy": [before["accuracy"], *accuracies]}, "Accuracy on held-out sequences", start=0),
        ],
        {"valid_loss": losses, "valid_accuracy": accuracies},
    )


class _Advancing(Callback):
    """Tells a bar of each step: the trainer's own one comes with lines that the stages say in their way."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar

    def on_step(self, trainer: Trainer, loss: float) -> None:
        self._bar.advance(task.BATCH_SIZE)


def prediction(model: Classifier, words: list[int]) -> Stage:
    """One sequence that was held out, all the way to its class."""
    with ex.no_grad():
        vectors = [model.embed(word).tolist() for word in words]
        states = [state.tolist() for state in model.states(words)]
        scores = model(words)
        chances = scores.softmax(0).tolist()
    best = max(range(task.N_CLASSES), key=chances.__getitem__)
    right = task.class_of(words)
    steps = [
        [str(step), str(word), _numbers(vector), _numbers(state[:5]) + " ..."]
        for step, (word, vector, state) in enumerate(zip(words, vectors, states, strict=True), 1)
    ]
    columns = [Column("step", right=True), Column("word", right=True), Column("embedding"), Column("state")]
    softmax = [
        [str(c), task.GROUPS[c], f"{score:.2f}", f"{chance:.1%}", "#" * round(chance * _BAR)]
        for c, (score, chance) in enumerate(zip(scores.tolist(), chances, strict=True))
    ]
    titles = [Column("class"), Column("group"), Column("score", right=True), Column("softmax", right=True), Column("")]
    verdict = "right" if best == right else f"wrong: it is {right}"
    report = trace(model, words)
    return Stage(
        "prediction",
        "7  One prediction, on a held-out sequence",
        f"input {words}",
        f"class {best} (largest word in {task.GROUPS[best]})",
        [
            f"padding: none; a model of fixed length {task.LONGEST} would add {task.LONGEST - len(words)} cells.",
            Table(columns, steps),
            Table(titles, softmax),
            f"class {best}, {chances[best]:.0%} sure: {verdict}.",
            "ex.inspect.trace(model, words) shows these steps for any model:",
            report.table,
            pictures.states(words, states),
        ],
        {
            "input": words,
            "padding": 0,
            "embedding": vectors,
            "states": states,
            "scores": scores.tolist(),
            "softmax": chances,
            "class": best,
            "right": right,
            "trace": report.as_dict()["steps"],
        },
    )


def _numbers(values: list[float]) -> str:
    return " ".join(f"{value:5.2f}" for value in values)
