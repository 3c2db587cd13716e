"""The stages of `extempo demo` up to the class scores: what goes in, what comes out, and a glimpse of the values."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import extempo as ex
from extempo.cli import demo_pictures as pictures
from extempo.cli import demo_task as task
from extempo.cli.demo_task import Classifier, Example
from extempo.inspect import Column, Table, draw, glimpse
from extempo.inspect.svg import Picture
from extempo.inspect.tables import WIDTH

N_EPOCHS = 5


class Verbatim(NamedTuple):
    """Text whose lines stay as they are."""

    text: str


class Folded(NamedTuple):
    """A large picture, which the page shows when its title is clicked."""

    title: str
    picture: Picture


Block = str | Table | Verbatim | Picture | Folded


class Stage(NamedTuple):
    """One stage: shapes before and after, what to show, and the same as plain values."""

    name: str
    title: str
    before: str
    after: str
    blocks: list[Block]
    facts: dict[str, Any]


def data_in(examples: list[Example], held_out: list[Example]) -> Stage:
    """The sequences, their lengths and classes."""
    first = examples[: len(task.FIRST_BATCH)]
    rows = [[str(words), str(len(words)), f"{label} (largest word in {task.GROUPS[label]})"] for words, label in first]
    counts = Counter(label for _, label in examples)
    return Stage(
        "data",
        "1  Data in",
        f"{len(first)} sequences of words",
        f"{len(first)} lists of {', '.join(str(len(words)) for words, _ in first)} integers",
        [
            "Words are 1 to 10; the class of a sequence is the group of its largest word.",
            Table([Column("sequence"), Column("length", right=True), Column("class")], rows, "The first batch:"),
            f"In all {len(examples)} sequences to learn from (per class "
            f"{', '.join(str(counts[c]) for c in range(task.N_CLASSES))}) and {len(held_out)} held out, "
            f"of 1 to {task.LONGEST} words; none is there twice.",
        ],
        {
            "first_batch": [words for words, _ in first],
            "labels": [label for _, label in first],
            "n_train": len(examples),
            "n_held_out": len(held_out),
            "n_per_class": [counts[c] for c in range(task.N_CLASSES)],
        },
    )


def preprocessing(sequences: list[list[int]]) -> Stage:
    """Padded and ragged, side by side, with what padding wastes."""
    n_columns = max(map(len, sequences))
    padded = [words + [0] * (n_columns - len(words)) for words in sequences]
    ragged = ex.ragged(sequences)
    n_cells = len(sequences) * n_columns
    n_wasted = n_cells - ragged.values().numel()
    share = f"{n_wasted} of {n_cells} cells ({n_wasted / n_cells:.0%})"
    rows = [
        [" ".join(f"{word:2}" if word else " ." for word in row), " ".join(f"{word:2}" for word in words)]
        for row, words in zip(padded, sequences, strict=True)
    ]
    rows.append([f"{share} wasted", "no cell wasted"])
    titles = [Column(f"padded to {n_columns} columns (. is padding)"), Column("ragged, no padding")]
    return Stage(
        "preprocessing",
        "2  Preprocessing, both ways",
        f"{len(sequences)} lists",
        f"padded {tuple(ex.tensor(padded).shape)}, ragged {_shape(ragged)}",
        [
            Table(titles, rows),
            "A padded batch computes the wasted cells as well, and needs a mask to forget them. From here on nothing "
            "is padded.",
            pictures.paddings(padded, sequences, share),
        ],
        {"padded": padded, "ragged": sequences, "n_cells": n_cells, "n_wasted": n_wasted},
    )


def embedding(model: Classifier, sequences: list[list[int]]) -> Stage:
    """A vector for each word."""
    ragged = ex.ragged(sequences)
    with ex.no_grad():
        vectors = model.embed(ragged)
    rows = [
        [str(word), " ".join(f"{value:6.2f}" for value in vector)]
        for word, vector in zip(ragged.values().tolist(), vectors.values().tolist(), strict=True)
    ]
    return Stage(
        "embedding",
        "3  Embedding to 3 features",
        f"ragged {_shape(ragged)} int64",
        f"ragged {_shape(vectors)} float32",
        [
            Table([Column("word", right=True), Column("its vector (untrained)")], rows[:4]),
            f"... and {len(rows) - 4} more; a table of {task.N_WORDS} x {task.N_FEATURES} numbers to learn.",
        ],
        {"vectors": vectors.tolist()},
    )


def recurrent(model: Classifier, sequences: list[list[int]]) -> Stage:
    """The loop over the words, and the graph that each length has drawn."""
    rows, counts, final = [], {}, []
    for words in sorted(sequences, key=len):
        graph = ex.Graph.of(model(words))
        counts[len(words)] = len(graph)
    for words in sequences:
        with ex.no_grad():
            state = model.states(words)[-1]
        final.append(state.tolist())
        chain = f"cell x {len(words)}, score"
        rows.append([str(words), chain, str(counts[len(words)]), glimpse(state, 3)])
    columns = [Column("sequence"), Column("graph"), Column("nodes", right=True), Column("last state")]
    shortest, *_, longest = sorted(sequences, key=len)
    graph = ex.Graph.of(model(shortest))
    lines = [line.split("  # ")[0] for line in str(graph).splitlines()]
    return Stage(
        "rnn",
        "4  The dynamic RNN",
        f"ragged ({len(sequences)}, *, {task.N_FEATURES})",
        f"states ({len(sequences)}, {task.N_HIDDEN})",
        [
            Verbatim(
                "for word in words:         # plain Python, for ONE sequence\n    state = cell(embed(word), state)"
            ),
            Table(columns, rows, "Each length built a graph of its own, used once and thrown away:"),
            f"The graph of {longest}, its repeated cells folded:",
            Verbatim(draw(model, longest).fold().text(WIDTH)),
            f"print(ex.Graph.of(model({longest}))) shows all {counts[len(longest)]} nodes.",
            pictures.chains(sequences, counts),
            Folded(
                f"Every op for {shortest}", draw(model, shortest, title=f"Every op for {shortest}").unfold().picture()
            ),
        ],
        {"n_nodes_by_length": counts, "graph": "\n".join(lines), "last_states": final},
    )


def scores(model: Classifier, sequences: list[list[int]]) -> Stage:
    """A number for each class, before any training."""
    with ex.no_grad():
        found = [model(words) for words in sequences]
    rows = [
        [
            str(words),
            " ".join(f"{value:6.2f}" for value in score.tolist()),
            str(score.argmax().item()),
            str(task.class_of(words)),
        ]
        for words, score in zip(sequences, found, strict=True)
    ]
    columns = [Column("sequence"), Column("score of class 0 .. 4"), Column("best", right=True), Column("right")]
    n_parameters = sum(p.numel() for p in model.parameters())
    return Stage(
        "scores",
        "5  Class scores",
        f"states ({len(sequences)}, {task.N_HIDDEN})",
        f"scores ({len(sequences)}, {task.N_CLASSES})",
        [Table(columns, rows), f"Nothing is learned yet: {n_parameters:,} parameters with random values."],
        {"scores": [score.tolist() for score in found], "n_parameters": n_parameters},
    )


def _shape(t: ex.RaggedTensor) -> str:
    return f"({', '.join(map(str, t.shape))})"
