"""Whole models against onnxruntime, on 100 inputs each: sizes and numbers of steps differ, 0 and 1 among them."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.cli import demo_task
from extempo.exporting import Dim
from extempo.nn import functional as F

from .agreement import Exported, agree_on_many, normal

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name):
    """The module of an example."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(model):
    ex.manual_seed(0)
    return model().eval()


def tokens(rng, n, *shape):
    return ex.tensor(rng.integers(0, n, size=shape))


# ---- the examples


def test_the_writer_of_the_character_example():
    module = example("char_rnn")
    n = len(module.CHARACTERS)
    exported = agree_on_many(
        made(module.Writer),
        ex.zeros(2, 5, dtype=ex.int64),
        lambda rng, length: (tokens(rng, n, int(rng.integers(0, 4)), length),),
        {"characters": {0: "batch", 1: "time"}},
    )
    assert "LSTM" in exported.kinds()


def test_the_reader_of_the_example_that_stops_when_it_is_sure():
    module = example("early_exit")
    exported = agree_on_many(
        made(lambda: module.Reader(sure=0.3)),
        ex.randn(7),
        lambda rng, length: (normal(rng, length) * 3,),
        {"values": {0: "time"}},
    )
    assert "Loop" in exported.kinds()
    n_read = {int(exported.run(normal(np.random.default_rng(k), 30) * 3)[1]) for k in range(20)}
    assert len(n_read) > 1  # it stops at different steps


def test_the_gpt_of_the_example_with_names():
    module = example("gpt_names")

    def draw(rng, length):
        shape = (2, min(length, module.LONGEST))
        return tokens(rng, len(module.LETTERS), *shape), ex.arange(shape[1]).expand(shape)

    sizes = {0: "names", 1: "letters"}
    agree_on_many(
        made(module.GPT), (ex.zeros(2, 5, dtype=ex.int64), ex.zeros(2, 5, dtype=ex.int64)), draw, [sizes, sizes]
    )


def test_the_network_that_has_grown():
    module = example("growing_network")
    model = made(lambda: nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)))
    for _ in range(2):
        module.grow(model)
    agree_on_many(model, ex.randn(4, 2), lambda rng, n: (normal(rng, n, 2),), {"input": {0: "n"}})


def test_the_messenger_on_graphs():
    """Its number of rounds is a plain number, and so part of a program."""
    module = example("message_passing")
    model = made(module.Messenger)

    def three_rounds(marks, sources, targets):
        return model(marks, sources, targets, 3)

    def draw(rng, n):
        edges = tokens(rng, n + 1, 2, 2 * n)
        return normal(rng, n + 1, 1), edges[0], edges[1]

    index = ex.zeros(6, dtype=ex.int64)
    agree_on_many(three_rounds, (ex.randn(4, 1), index, index), draw, [{0: "nodes"}, {0: "edges"}, {0: "edges"}])


def test_the_reader_of_sentences():
    module = example("reading_sentences")
    n = len(module.CODE)
    agree_on_many(
        made(module.Reader),
        (ex.zeros(5, dtype=ex.int64), ex.zeros(1, dtype=ex.int64)),
        lambda rng, length: (tokens(rng, n, length), tokens(rng, n, 1)),
        {"words": {0: "length"}},
    )


def test_the_policy_of_the_game():
    policy = made(example("reinforce").Policy)
    agree_on_many(policy.net, ex.randn(3, 16), lambda rng, n: (normal(rng, n, 16),), {"input": {0: "n"}})


def test_the_decisions_and_compositions_of_the_parser():
    """Its loop goes over a text, which is no tensor; what it computes at each step is exported."""
    parser = made(example("shift_reduce").Parser)
    agree_on_many(parser.compose, ex.randn(2, 72), lambda rng, n: (normal(rng, n, 72),), {"input": {0: "n"}})
    agree_on_many(parser.decide, ex.randn(2, 96), lambda rng, n: (normal(rng, n, 96),), {"input": {0: "n"}})


def test_the_autoencoder_of_discs():
    model = made(example("vae").VAE)
    agree_on_many(model, ex.rand(3, 144), lambda rng, n: (normal(rng, n, 144),), {"pictures": {0: "n"}})


class Scheduled(nn.Module):
    """The evaluator of the tree example over a schedule: nodes after their children, children by their numbers."""

    def __init__(self, evaluator):
        super().__init__()
        self.evaluator = evaluator

    def forward(self, digits, left, right, kinds):
        """digits: of a leaf, kinds: 0 a leaf, 1 plus, 2 minus; left and right: where the children stand."""
        cells = self.evaluator.cells
        n = digits.shape[0]
        h, c = ex.zeros(n, 32), ex.zeros(n, 32)
        for k in range(n):
            a, b = (h[left[k]], c[left[k]]), (h[right[k]], c[right[k]])
            if kinds[k] == 0:
                state = cells["plus"].leaf(self.evaluator.digit(digits[k]))
                new_h, new_c = state.h, state.c
            elif kinds[k] == 1:
                state = cells["plus"](a, b)
                new_h, new_c = state.h, state.c
            else:
                state = cells["minus"](a, b)
                new_h, new_c = state.h, state.c
            at = (ex.arange(n) == k).unsqueeze(1)
            h, c = ex.where(at, new_h, h), ex.where(at, new_c, c)
        return self.evaluator.value(c[n - 1])


def schedule(tree):
    """The nodes of a nested tree, children first, as four rows of numbers."""
    rows = []

    def add(tree):
        if isinstance(tree, int):
            rows.append((tree, 0, 0, 0))
        else:
            left, operator, right = tree
            rows.append((0, add(left), add(right), 1 if operator == "+" else 2))
        return len(rows) - 1

    add(tree)
    return tuple(ex.tensor(np.array(column)) for column in zip(*rows, strict=True))


def test_a_tree_lstm_over_nested_inputs_turned_into_a_schedule():
    module = example("tree_lstm")
    evaluator = made(module.Evaluator)
    draws = random.Random(0)
    nodes = {0: "nodes"}
    model = Scheduled(evaluator).eval()
    exported = Exported(ex.program(model, schedule(module.draw_tree(draws, 4)), dynamic=[nodes] * 4))
    assert {"Loop", "If"} <= exported.kinds()
    for k in range(100):
        tree = module.draw_tree(draws, 1 + k % 9)
        exported.agree(*schedule(tree))
        with ex.no_grad():
            wanted = evaluator(tree).item()
        np.testing.assert_allclose(exported.run(*schedule(tree))[0].item(), wanted, rtol=1e-4, atol=1e-5)


def test_the_model_of_the_demo():
    model = made(demo_task.Classifier)
    n = demo_task.N_WORDS
    agree_on_many(
        model,
        ex.tensor([1, 2, 3]),
        lambda rng, length: (tokens(rng, n, length),),
        {"words": {0: Dim("length", min=1)}},
        least=1,
    )


# ---- models that decide while they run


class Translator(nn.Module):
    """Reads a sentence, then writes words until it writes the end, or is as long as it may become."""

    END, N_WORDS, LONGEST = 0, 9, 12

    def __init__(self, dim=16):
        super().__init__()
        self.embed = nn.Embedding(self.N_WORDS, dim)
        self.encoder = nn.GRU(dim, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.score = nn.Linear(dim, self.N_WORDS)

    def forward(self, words):
        state = self.encoder(self.embed(words))[1][0]
        written = ex.full((self.LONGEST,), self.END)
        word, n = ex.tensor(1), ex.tensor(0)
        while n < self.LONGEST and word != self.END:
            state = self.cell(self.embed(word), state)
            word = self.score(state).argmax()
            written = ex.where(ex.arange(self.LONGEST) == n, word, written)
            n = n + 1
        return written, n


def test_a_translator_with_greedy_decoding_ends_at_its_token():
    ex.manual_seed(1)
    model = Translator().eval()
    exported = agree_on_many(
        model,
        ex.tensor([1, 2, 3]),
        lambda rng, length: (tokens(rng, Translator.N_WORDS, length),),
        {"words": {0: "length"}},
    )
    rng = np.random.default_rng(1)
    counts = {int(exported.run(tokens(rng, Translator.N_WORDS, 1 + k % 9))[1]) for k in range(40)}
    assert len(counts) > 3


class CachedBlock(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, keys, values):
        """x: (batch, dim) of one place; keys and values: (batch, heads, places, dim of a head) of those before."""
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (self.n_heads, -1)).unsqueeze(2) for p in parts)
        keys, values = ex.cat([keys, k], 2), ex.cat([values, v], 2)
        attended = F.scaled_dot_product_attention(q, keys, values)
        x = x + self.out(attended.flatten(1))
        return x + self.mlp(self.norm2(x)), keys, values


class CachedGPT(nn.Module):
    """One step of a GPT: the next scores, and the cache with one more place."""

    def __init__(self, n_words=11, dim=16, n_heads=2, n_blocks=2, longest=32):
        super().__init__()
        self.word, self.place = nn.Embedding(n_words, dim), nn.Embedding(longest, dim)
        self.blocks = nn.ModuleList([CachedBlock(dim, n_heads) for _ in range(n_blocks)])
        self.norm, self.score = nn.LayerNorm(dim), nn.Linear(dim, n_words)

    def forward(self, words, cache):
        place = ex.full((1,), cache[0][0].shape[2])
        x = self.word(words) + self.place(place)
        after = []
        for block, (keys, values) in zip(self.blocks, cache, strict=True):
            x, keys, values = block(x, keys, values)
            after.append((keys, values))
        return self.score(self.norm(x)), after


def test_a_gpt_with_a_cache_of_keys_and_values():
    model = made(CachedGPT)

    def draw(rng, length):
        batch = int(rng.integers(1, 4))
        cache = [tuple(normal(rng, batch, 2, length, 8) for _ in range(2)) for _ in range(2)]
        return tokens(rng, 11, batch), cache

    sizes = {0: "batch", 2: "places"}
    rng = np.random.default_rng(0)
    exported = agree_on_many(model, draw(rng, 3), draw, [{0: "batch"}, [(sizes, sizes), (sizes, sizes)]])
    words, cache = ex.tensor([1]), [tuple(ex.zeros(1, 2, 0, 8) for _ in range(2)) for _ in range(2)]
    for _ in range(10):  # its own results go back in
        scores, *after = exported.run(words, cache)
        words = ex.tensor(scores.argmax(1))
        cache = [(ex.tensor(after[2 * i]), ex.tensor(after[2 * i + 1])) for i in range(2)]
    assert cache[0][0].shape == (1, 2, 10, 8)


class EarlyExit(nn.Module):
    """Layers with an exit each; the first that is sure answers."""

    def __init__(self, dim=12, n_layers=4):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(n_layers)])
        self.exits = nn.ModuleList([nn.Linear(dim, 3) for _ in range(n_layers)])

    def forward(self, x):
        for layer, out in zip(self.layers, self.exits, strict=True):
            x = layer(x).tanh()
            chances = out(x).softmax(-1)
            if chances.max() > 0.55:
                return chances
        return chances


def test_a_network_with_early_exits():
    exported = agree_on_many(made(EarlyExit), ex.randn(12), lambda rng, n: (normal(rng, 12) * (1 + n % 5),), None)
    assert "If" in exported.kinds()


class RaggedClassifier(nn.Module):
    """Sequences of different lengths end to end, and those lengths, as a model without ragged tensors has them."""

    def __init__(self, n_words=20, dim=8):
        super().__init__()
        self.embed = nn.Embedding(n_words, dim)
        self.weigh = nn.Linear(dim, 1)
        self.score = nn.Linear(dim, 3)

    def forward(self, words, lengths):
        n_rows = lengths.shape[0]
        ends = lengths.cumsum(0)
        row = (ends.unsqueeze(0) <= ex.arange(words.shape[0]).unsqueeze(1)).sum(1)
        x = self.embed(words)
        weights = self.weigh(x).exp()
        total = ex.zeros(n_rows, 1).index_add(0, row, weights)
        summed = ex.zeros(n_rows, x.shape[1]).index_add(0, row, x * weights)
        return self.score(summed / total.clamp(min=1e-9))


def test_a_ragged_classifier_in_the_form_of_values_and_lengths():
    def draw(rng, n_rows):
        lengths = rng.integers(0, 6, size=n_rows)
        return tokens(rng, 20, int(lengths.sum())), ex.tensor(lengths)

    agree_on_many(
        made(RaggedClassifier), (ex.zeros(5, dtype=ex.int64), ex.tensor([2, 3])), draw, [{0: "words"}, {0: "rows"}]
    )


# ---- layers that loop


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_recurrent_layer_of_any_length_and_batch(kind, bidirectional):
    exported = agree_on_many(
        made(lambda: kind(3, 4, num_layers=2, bidirectional=bidirectional)),
        ex.randn(5, 2, 3),
        lambda rng, length: (normal(rng, length, int(rng.integers(0, 4)), 3),),
        {"input": {0: "time", 1: "batch"}},
    )
    assert kind.__name__ in exported.kinds()


@pytest.mark.parametrize("opset_version", [17, 18, 19, 20, 21])
def test_every_opset_from_17_to_21(opset_version):
    model = made(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1))
    exported = agree_on_many(
        model,
        ex.randn(2, 5, 8),
        lambda rng, length: (normal(rng, 2, length, 8),),
        {"src": {1: "time"}},
        n=10,
        opset_version=opset_version,
    )
    assert [(o.domain, o.version) for o in exported.model.opset_import] == [("", opset_version)]
    assert exported.model.ir_version == 10
