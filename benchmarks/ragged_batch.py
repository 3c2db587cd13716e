"""32 sequences of 5 to 50 words, an LSTM cell looped over one sequence in Python. Hidden 64, embeddings of 32, Adam.

Words are of 1000, each sequence is of one of 5 classes. Every step has sequences that no earlier step had. PyTorch runs
a cell written by hand, one sequence after the other; its other rows are what its users may do instead. Extempo's ragged
rows run nn.LSTM over the whole batch as one ragged tensor.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import dynet_peer
import jax_peer
import numpy as np
from workload import (
    LEARNING_RATE,
    Each,
    Library,
    Peers,
    Step,
    Workload,
    Wrap,
    as_it_is,
    batch_peers,
    extempo,
    fill,
    mirrored,
    one_by_one,
    run_this,
    torch,
    trainer,
    whole,
)

N_SEQUENCES, N_WORDS, N_IN, N_HIDDEN, N_CLASSES = 32, 1000, 32, 64, 5
SHORTEST, LONGEST = 5, 50
BLOCK, N_BLOCKS = 6, 30


def data() -> tuple[dict[str, Any], list[list[Any]], list[list[int]]]:
    """Weights as (in, out), and sequences and labels of each step. All blocks have the same number of words."""
    rng = np.random.RandomState(0)
    weights = {
        "embedding": rng.randn(N_WORDS, N_IN),
        "gates": rng.randn(N_IN, 4 * N_HIDDEN) / N_IN**0.5,
        "state": rng.randn(N_HIDDEN, 4 * N_HIDDEN) / N_HIDDEN**0.5,
        "bias": np.zeros(4 * N_HIDDEN),
        "state bias": np.zeros(4 * N_HIDDEN),
        "classes": rng.randn(N_HIDDEN, N_CLASSES) / N_HIDDEN**0.5,
        "classes bias": np.zeros(N_CLASSES),
    }
    sequences = []
    for _ in range(N_BLOCKS):
        drawn = [rng.randint(0, N_WORDS, n) for n in mirrored(rng, SHORTEST, LONGEST, BLOCK * N_SEQUENCES)]
        sequences += [drawn[k : k + N_SEQUENCES] for k in range(0, len(drawn), N_SEQUENCES)]
    labels = rng.randint(0, N_CLASSES, (len(sequences), N_SEQUENCES)).tolist()
    return {name: w.astype("f4") for name, w in weights.items()}, sequences, labels


def program(library: Library, each: Each = one_by_one, wrap: Wrap = as_it_is) -> Step:
    """The code of one sequence, run for every sequence."""
    lib = library()
    nn = lib.nn
    weights, sequences, labels = data()
    embedding, lstm = nn.Embedding(N_WORDS, N_IN), nn.LSTMCell(N_IN, N_HIDDEN)
    to_classes = nn.Linear(N_HIDDEN, N_CLASSES)
    arrays = [w if name == "embedding" else w.T for name, w in weights.items()]
    parameters = fill(lib, nn.ModuleList([embedding, lstm, to_classes]).parameters(), arrays)

    def loss_of_sequence(words: list[int], label: int) -> Any:
        state = None
        for word in words:
            state = lstm(embedding(word), state)
        return nn.functional.cross_entropy(to_classes(state[0]), label)

    losses_of = each(lib, loss_of_sequence)

    def loss_of(sequences: list[list[int]], labels: list[int]) -> Any:
        return lib.stack(losses_of(sequences, labels)).mean()

    batches = [([s.tolist() for s in batch], y) for batch, y in zip(sequences, labels, strict=True)]
    return trainer(lib, loss_of, lib.optim.Adam(parameters, lr=LEARNING_RATE), batches, wrap)


def with_ragged(wrap: Wrap = as_it_is) -> Step:
    """All sequences as one ragged tensor through nn.LSTM. The ragged tensors are made before, as PyTorch's padded."""
    lib = extempo()
    nn = lib.nn
    weights, sequences, labels = data()
    embedding, lstm, to_classes = nn.Embedding(N_WORDS, N_IN), nn.LSTM(N_IN, N_HIDDEN), nn.Linear(N_HIDDEN, N_CLASSES)
    arrays = [w if name == "embedding" else w.T for name, w in weights.items()]
    parameters = fill(lib, nn.ModuleList([embedding, lstm, to_classes]).parameters(), arrays)

    def loss_of(words: Any, labels: Any) -> Any:
        _, (last, _) = lstm(embedding(words))
        return nn.functional.cross_entropy(to_classes(last[0]), labels)

    inputs = [lib.ragged(list(map(lib.from_numpy, batch))) for batch in sequences]
    batches = list(zip(inputs, lib.tensor(labels), strict=True))
    return trainer(lib, loss_of, lib.optim.Adam(parameters, lr=LEARNING_RATE), batches, wrap)


def with_torch(style: str) -> Step:
    """One sequence at a time, with a "cell" written by hand, nn.LSTMCell or nn.LSTM; or all, "packed" or "padded"."""
    lib = torch()
    nn, F = lib.nn, lib.nn.functional
    weights, sequences, labels = data()
    embedding, to_classes = nn.Embedding(N_WORDS, N_IN), nn.Linear(N_HIDDEN, N_CLASSES)
    lstm = nn.LSTMCell(N_IN, N_HIDDEN) if style == "nn.LSTMCell" else nn.LSTM(N_IN, N_HIDDEN)
    arrays = [w if name == "embedding" else w.T for name, w in weights.items()]
    parameters = fill(lib, nn.ModuleList([embedding, lstm, to_classes]).parameters(), arrays)
    wx, wh, bx, bh = lstm.parameters()
    rows = lib.arange(N_SEQUENCES)

    def last_of(inputs: Any) -> Any:
        if style == "nn.LSTM":
            return lstm(inputs[:, None])[0][-1]
        h = c = lib.zeros(1, N_HIDDEN)
        for x in inputs.split(1):
            if style == "nn.LSTMCell":
                h, c = lstm(x, (h, c))
                continue
            i, f, g, o = (F.linear(x, wx, bx) + F.linear(h, wh, bh)).chunk(4, 1)
            c = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(g)
            h = lib.sigmoid(o) * lib.tanh(c)
        return h

    def looped(words: Any, lengths: Any) -> Any:
        """One lookup and one layer of classes for all sequences: kind to PyTorch."""
        return lib.cat([last_of(inputs) for inputs in embedding(words).split(lengths)])

    def packed(words: Any, lengths: Any) -> Any:
        inputs = embedding(words[: lengths.max()])
        return lstm(nn.utils.rnn.pack_padded_sequence(inputs, lengths, enforce_sorted=False))[1][0][0]

    def padded(words: Any, lengths: Any) -> Any:
        return lstm(embedding(words))[0][lengths - 1, rows]

    last = {"packed": packed, "padded": padded}.get(style, looped)
    if last is looped:
        inputs = [(lib.from_numpy(np.concatenate(batch)), [len(s) for s in batch]) for batch in sequences]
    else:
        inputs = [tuple(map(lib.from_numpy, pad(batch))) for batch in sequences]

    def loss_of(words: Any, lengths: Any, labels: Any) -> Any:
        return F.cross_entropy(to_classes(last(words, lengths)), labels)

    batches = [(*batch, y) for batch, y in zip(inputs, lib.tensor(labels), strict=True)]
    return trainer(lib, loss_of, lib.optim.Adam(parameters, lr=LEARNING_RATE, fused=style != "cell"), batches)


def pad(sequences: list[Any]) -> tuple[Any, Any]:
    """Words as (time, sequence), zeros after the end of each, and the lengths."""
    words = np.zeros((LONGEST, len(sequences)), "i8")
    for column, sequence in enumerate(sequences):
        words[: len(sequence), column] = sequence
    return words, np.array([len(sequence) for sequence in sequences])


def with_jax() -> Step:
    jax, jnp = jax_peer.jax()
    weights, sequences, labels = data()

    def loss_of(w: dict[str, Any], words: Any, lengths: Any, labels: Any) -> Any:
        gates = w["embedding"][words] @ w["gates"] + w["bias"] + w["state bias"]

        def cell(state: tuple[Any, Any], at: tuple[Any, Any]) -> tuple[tuple[Any, Any], None]:
            (h, c), (from_input, t) = state, at
            i, f, g, o = jnp.split(from_input + h @ w["state"], 4, 1)
            next_c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            next_h = jax.nn.sigmoid(o) * jnp.tanh(next_c)
            going_on = (t < lengths)[:, None]
            return (jnp.where(going_on, next_h, h), jnp.where(going_on, next_c, c)), None

        zeros = jnp.zeros((N_SEQUENCES, N_HIDDEN))
        (h, _), _ = jax.lax.scan(cell, (zeros, zeros), (gates, jnp.arange(LONGEST)))
        return jax_peer.cross_entropy(h @ w["classes"] + w["classes bias"], labels)

    batches = [(*pad(batch), np.array(y)) for batch, y in zip(sequences, labels, strict=True)]
    return jax_peer.trainer(loss_of, weights, batches)


def with_dynet(autobatch: bool) -> Step:
    dy = dynet_peer.dynet(1024, autobatch)
    arrays, sequences, labels = data()
    weights = dy.ParameterCollection()
    embedding = weights.lookup_parameters_from_numpy(arrays.pop("embedding"))
    wx, wh, bx, bh, wo, bo = (weights.parameters_from_numpy(a.T.copy()) for a in arrays.values())
    batches = [[s.tolist() for s in batch] for batch in sequences]

    def last_of(words: list[int], bias: Any) -> Any:
        h = c = dy.zeros(N_HIDDEN)
        for word in words:
            gates = dy.affine_transform([bias, wx, embedding[word], wh, h])
            i, f, g, o = (dy.pick_range(gates, k * N_HIDDEN, (k + 1) * N_HIDDEN) for k in range(4))
            c = dy.cmult(dy.logistic(f), c) + dy.cmult(dy.logistic(i), dy.tanh(g))
            h = dy.cmult(dy.logistic(o), dy.tanh(c))
        return h

    def loss_of(k: int) -> Any:
        bias = bx + bh
        samples = zip(batches[k % len(batches)], labels[k % len(labels)], strict=True)
        scores = [(dy.affine_transform([bo, wo, last_of(words, bias)]), label) for words, label in samples]
        return dy.esum([dy.pickneglogsoftmax(found, label) for found, label in scores]) * (1 / N_SEQUENCES)

    return dynet_peer.trainer(loss_of, dy.AdamTrainer(weights, LEARNING_RATE), weights)


PEERS: Peers = {
    **batch_peers(program),
    "extempo ragged": with_ragged,
    "extempo ragged compiled": partial(with_ragged, whole),
    "torch": partial(with_torch, "cell"),
    "torch nn.LSTMCell": partial(with_torch, "nn.LSTMCell"),
    "torch nn.LSTM": partial(with_torch, "nn.LSTM"),
    "torch packed": partial(with_torch, "packed"),
    "torch padded": partial(with_torch, "padded"),
    "jax.jit masked": with_jax,
    "dynet": partial(with_dynet, autobatch=False),
    "dynet+autobatch": partial(with_dynet, autobatch=True),
}
WORKLOADS = [Workload("ragged_batch", __doc__, BLOCK, PEERS, batch_floor=0.045, ragged_floor=0.02)]

if __name__ == "__main__":
    run_this(__file__)
