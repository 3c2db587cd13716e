"""Whole programs written for one sample, batched: the same results and gradients as in a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import extempo as ex
from extempo import nn
from extempo.backends.selection import native
from extempo.errors import GraphError
from extempo.nn import functional as F

from .agreement import check, draw


class TreeModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 5)
        self.compose = nn.NaryTreeLSTMCell(5, 5, arity=2)
        self.out = nn.Linear(5, 3)

    def state(self, tree):
        if isinstance(tree, int):
            return self.compose.leaf(self.embed(tree))
        return self.compose(self.state(tree[0]), self.state(tree[1]))

    def forward(self, tree):
        return self.out(self.state(tree).h)


trees = st.recursive(st.integers(0, 19), lambda inner: st.tuples(inner, inner), max_leaves=12)


@given(st.lists(trees, max_size=6))
@settings(max_examples=25, deadline=None)
def test_random_trees(samples):
    ex.manual_seed(0)
    model = TreeModel()
    check(model, samples, parameters=model.parameters())


def test_levels_of_trees_run_as_one():
    def balanced(depth):
        return depth if depth == 0 else (balanced(depth - 1), balanced(depth - 1))

    model = TreeModel()
    batched = check(model, [balanced(3)] * 4, parameters=model.parameters())
    stats = batched.stats()
    assert stats["nodes"] == 4 * (8 + 8 + 7 + 1)
    assert stats["launches"] == 1 + 1 + 3 + 1  # embeddings, leaves, three levels, scores


class SequenceModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 4)
        self.cell = nn.LSTMCell(4, 6)
        self.out = nn.Linear(6, 3)

    def forward(self, words, label):
        h = c = ex.zeros(6)
        for word in words:
            h, c = self.cell(self.embed(word), (h, c))
        return F.cross_entropy(self.out(h), label)


@given(st.lists(st.tuples(st.lists(st.integers(0, 19), max_size=9), st.integers(0, 2)), max_size=6))
@settings(max_examples=25, deadline=None)
def test_ragged_sequences(samples):
    ex.manual_seed(0)
    model = SequenceModel()
    check(model, [words for words, _ in samples], [label for _, label in samples], parameters=model.parameters())


def test_scores_of_sequences_of_any_length_run_as_one():
    model = SequenceModel()
    batched = check(model, [[1] * n for n in range(1, 9)], [0] * 8, parameters=model.parameters())
    # Embeddings; the first step, whose state is a constant; seven more; scores; losses.
    assert batched.stats()["launches"] == 1 + 1 + 7 + 1 + 1


@given(st.lists(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=8), max_size=5))
@settings(max_examples=25, deadline=None)
def test_graphs_with_shared_parts(programs):
    """Nodes that read any two earlier ones, the same one twice included."""
    ex.manual_seed(0)
    cell = nn.Bilinear(4, 4, 4)
    start = draw(0, 4).requires_grad_()

    def run(edges):
        values = [start]
        for a, b in edges:
            values.append(ex.tanh(cell(values[a % len(values)], values[b % len(values)])))
        return values[-1], sum(values[1:], start)

    check(run, programs, parameters=[start, *cell.parameters()])


def test_plain_ops_are_batched_too():
    w, b = draw(1, 4, 3).requires_grad_(), draw(2, 3).requires_grad_()

    def run(x):
        y = ex.tanh(x @ w + b)
        return (y * y).sum()

    batched = check(run, [draw(i, 4) for i in range(10)], parameters=[w, b])
    stats = batched.stats()
    assert stats["nodes"] == 50
    assert stats["launches"] == 5


class Parser(nn.Module):
    """A stack machine that decides by its own scores (after SPINN)."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.tracker = nn.LSTMCell(12, 5)
        self.act = nn.Linear(5, 2)
        self.reduce = nn.NaryTreeLSTMCell(6, 6, arity=2)

    def forward(self, words):
        buffer = [self.reduce.leaf(self.embed(word)) for word in reversed(words)]
        stack, losses = [], []
        h = c = ex.zeros(5)
        none = ex.zeros(6)
        while buffer or len(stack) > 1:
            top = stack[-1].h if stack else none
            following = buffer[-1].h if buffer else none
            h, c = self.tracker(ex.cat([top, following]), (h, c))
            scores = self.act(h)
            action = scores.argmax().item()
            if not buffer:
                action = 1
            elif len(stack) < 2:
                action = 0
            losses.append(F.cross_entropy(scores, 1 - action))
            if action:
                right, left = stack.pop(), stack.pop()
                stack.append(self.reduce(left, right))
            else:
                stack.append(buffer.pop())
        return stack[0].h, sum(losses)


def test_a_parser_that_branches_on_its_own_predictions():
    ex.manual_seed(3)
    model = Parser()
    rng = np.random.default_rng(0)
    samples = [rng.integers(0, 20, rng.integers(1, 9)).tolist() for _ in range(7)]
    batched = check(model, samples, parameters=model.parameters())
    stats = batched.stats()
    assert stats["reads"] > 7
    assert stats["mean_batch"] > 2


def test_beam_search():
    ex.manual_seed(0)
    embed, cell, out = nn.Embedding(9, 4), nn.GRUCell(4, 5), nn.Linear(5, 9)

    def search(start):
        beams = [(0.0, [start % 9], ex.zeros(5))]
        for _ in range(4):
            grown = []
            for score, words, state in beams:
                state = cell(embed(words[-1]), state)
                log_p = F.log_softmax(out(state), -1)
                values, indices = log_p.topk(2)
                for value, index in zip(values.tolist(), indices.tolist(), strict=True):
                    grown.append((score + value, [*words, index], state))
            beams = sorted(grown, key=lambda beam: -beam[0])[:3]
        return beams[0][1], beams[0][2]

    with ex.no_grad():
        expected = [search(i) for i in range(5)]
        got = ex.batch(search)(range(5))
    assert [words for words, _ in got] == [words for words, _ in expected]
    for (_, a), (_, b) in zip(got, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-5)


def test_a_graph_network_with_any_degrees():
    ex.manual_seed(0)
    message, update = nn.Linear(4, 4), nn.GRUCell(4, 4)

    def run(neighbours):
        states = [draw(i, 4) for i in range(len(neighbours))]
        for _ in range(2):
            incoming = [
                sum((message(states[j]) for j in around[1:]), message(states[around[0]])) if around else ex.zeros(4)
                for around in neighbours
            ]
            states = [update(m, s) for m, s in zip(incoming, states, strict=True)]
        return ex.stack(states).mean(0)

    samples = [[[1], [0, 2], [1]], [[]], [[1, 2, 3], [0], [0], [0, 1, 2]]]
    check(run, samples, parameters=[*message.parameters(), *update.parameters()])


def test_an_interpreter_of_programs():
    ex.manual_seed(0)
    ops = {"neg": nn.Linear(3, 3), "add": nn.Bilinear(3, 3, 3), "mul": nn.Bilinear(3, 3, 3)}
    constants = nn.Embedding(5, 3)

    def run(program):
        if isinstance(program, int):
            return constants(program)
        name, *arguments = program
        if name == "if":  # on the value of its condition
            return run(arguments[1] if run(arguments[0]).sum().item() > 0 else arguments[2])
        return ex.tanh(ops[name](*map(run, arguments)))

    programs = [
        3,
        ("add", 1, 2),
        ("if", ("neg", 1), ("mul", 1, ("add", 2, 3)), ("neg", ("neg", 4))),
        ("if", ("if", 0, 1, 2), ("neg", 0), 1),
        ("mul", ("add", 0, 1), ("add", 2, 3)),
    ]
    parameters = [p for m in (*ops.values(), constants) for p in m.parameters()]
    check(run, programs, parameters=parameters)


def test_images_of_any_size():
    ex.manual_seed(0)
    conv1, conv2, out = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

    def run(image):
        y = F.max_pool2d(F.relu(conv1(image)), 2)
        return out(F.relu(conv2(y)).mean((1, 2)))

    images = [draw(i, 1, h, w) for i, (h, w) in enumerate([(8, 8), (10, 7), (8, 8), (9, 12)])]
    parameters = [p for m in (conv1, conv2, out) for p in m.parameters()]
    batched = check(run, images, parameters=parameters)
    assert batched.stats()["launches"] < batched.stats()["nodes"]


def test_documents_of_sentences_of_words():
    ex.manual_seed(0)
    embed, words, sentences = nn.Embedding(9, 3), nn.GRUCell(3, 4), nn.GRUCell(4, 4)

    def of_sentence(sentence):
        h = ex.zeros(4)
        for word in sentence:
            h = words(embed(word), h)
        return h

    def of_document(document):
        h = ex.zeros(4)
        for state in ex.batch(of_sentence)(document):
            h = sentences(state, h)
        return h

    documents = [[[1, 2, 3], [4]], [], [[5, 6], [], [7, 8, 1]], [[2]]]
    parameters = [p for m in (embed, words, sentences) for p in m.parameters()]
    batched = check(of_document, documents, parameters=parameters)
    assert batched.stats()["nodes"] > 2 * batched.stats()["launches"]


def test_numpy_a_cache_and_a_simulator_in_the_middle():
    ex.manual_seed(0)
    policy = nn.Linear(2, 3)
    cache: dict[int, float] = {}

    class World:
        def __init__(self, seed):
            self.state = np.array([seed % 3, 0.5], np.float32)

        def step(self, action):
            self.state = np.tanh(self.state * (1 + action))
            return float(self.state.sum())

    def episode(seed):
        world, total, log_p = World(seed), 0.0, []
        for _ in range(2 + seed % 3):
            p = F.log_softmax(policy(ex.tensor(world.state)), -1)
            action = int(np.argmax(p.detach().numpy()))
            log_p.append(p[action])
            total += cache.setdefault(action, float(action)) + world.step(action)
        return ex.stack(log_p).sum() * total

    check(episode, range(6), parameters=policy.parameters())


def test_no_samples():
    assert ex.batch(lambda x: x * 2)([]) == []
    assert ex.batch(lambda x: x * 2)(ex.zeros(0, 3)) == []


def test_outputs_of_any_structure():
    w = draw(0, 3).requires_grad_()

    def run(x, n):
        if n == 0:
            return None
        if n == 1:
            return {"a": x * w, "b": (x, [x + 1, None, "text"])}
        return x, w

    samples = [draw(i, 3) for i in range(4)]
    got = ex.batch(run)(samples, [0, 1, 2, 1])
    assert got[0] is None
    assert got[1]["b"][1][1:] == [None, "text"]
    assert got[2][0] is samples[2]
    assert got[2][1] is w
    check(run, samples, [0, 1, 2, 1], parameters=[w])


def test_arguments():
    x = draw(0, 4, 3)
    shared = draw(1, 3)
    got = ex.batch(lambda row, k, scale: (row * scale).sum() * k)(x, iter([1, 2, 3, 4]), scale=shared)
    expected = (x * shared).sum(1) * ex.tensor([1.0, 2, 3, 4])
    np.testing.assert_allclose([t.item() for t in got], expected.numpy(), rtol=1e-5)
    with pytest.raises(ex.errors.ShapeError, match="2, 3 samples"):
        ex.batch(lambda a, b: a)([1, 2], [1, 2, 3])
    with pytest.raises(ex.errors.DtypeError, match="keyword argument"):
        ex.batch(lambda a: a)(3)
    with pytest.raises(ex.errors.DtypeError, match="expected a function"):
        ex.batch(3)


def test_several_runs_and_losses_combine():
    model = SequenceModel()
    first, second = [[1, 2], [3]], [[4], [5, 6, 7], [8]]

    def loss(both):
        a = both(model)(first, [0, 1])
        b = both(model)(second, [1, 2, 0])
        return ex.stack(a).mean() + 2 * ex.stack(b).sum() + a[0] * b[1]

    total = loss(lambda fn: ex.batch(fn, debug=True))
    total.backward()
    expected = [p.grad.numpy().copy() for p in model.parameters()]
    model.zero_grad()
    loss(ex.batch).backward()
    for p, g in zip(model.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), g, atol=1e-5)


def test_a_result_goes_into_another_run():
    lift, cell = nn.Linear(2, 3), nn.GRUCell(3, 3)

    def run(batch, x):
        states = batch(lambda row: lift(row))(x)
        return batch(lambda s: cell(s, s * 2))(states)

    x = draw(0, 5, 2).requires_grad_()
    parameters = [x, *lift.parameters(), *cell.parameters()]
    results = []
    for batch in (lambda fn: ex.batch(fn, debug=True), ex.batch):
        for p in parameters:
            p.grad = None
        ex.stack(run(batch, x)).pow(2).sum().backward()
        results.append([p.grad.numpy().copy() for p in parameters])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("grad", [True, False])
def test_inside_a_compiled_step(grad):
    ex.manual_seed(0)
    models = [SequenceModel(), SequenceModel()]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [ex.optim.Adam(m.parameters(), lr=0.05) for m in models]
    rng = np.random.default_rng(0)

    def step(model, optimizer, words, labels, batch):
        loss = ex.stack(batch(model)(words, labels)).mean()
        if grad:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    compiled = ex.compile(step)
    for _ in range(8):
        words = [rng.integers(0, 20, rng.integers(0, 6)).tolist() for _ in range(5)]
        labels = rng.integers(0, 3, 5).tolist()
        with ex.set_grad_enabled(grad):
            a = step(models[0], optimizers[0], words, labels, lambda fn: ex.batch(fn, debug=True))
            b = compiled(models[1], optimizers[1], words, labels, ex.batch)
        assert a == pytest.approx(b, rel=1e-4)


@pytest.mark.skipif(native() is None, reason="without native code there are no guards on structures")
def test_a_static_function_reads_weights_and_words_anew():
    embed = nn.Embedding(10, 4)
    summed = ex.batch(lambda words: ex.stack([embed(word) for word in words]).sum())
    fixed = ex.compile(lambda samples: ex.stack(summed(samples)).sum(), static=True)
    for samples in ([[1, 2], [3]], [[1, 2], [4]], [[7, 7], [0]]):
        assert fixed(samples).item() == pytest.approx(ex.stack(summed(samples)).sum().item(), rel=1e-5)
        with ex.no_grad():
            embed.weight += 1
    with pytest.raises(GraphError, match="list of 2"):
        fixed([[1, 2], [4, 5]])


def test_a_static_training_step():
    linear = nn.Linear(3, 2)
    optimizer = ex.optim.SGD(linear.parameters(), lr=0.1)

    def step(samples):
        loss = ex.stack(ex.batch(lambda x: linear(x).square().sum())(samples)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    fixed = ex.compile(step, static=True)
    samples = ex.randn(4, 3)
    losses = [fixed(samples).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 5


def test_leaves_of_a_samples_own_are_values_and_run_as_one():
    samples = [draw(i, 3).requires_grad_() for i in range(6)]
    shared = draw(9, 3).requires_grad_()
    batched = check(lambda x, w: (x * w).tanh().sum(), samples, [shared] * 6, parameters=[*samples, shared])
    assert batched.stats()["launches"] == 3
    lists = [[draw(i, n, 3).requires_grad_(), draw(i, 3).requires_grad_()] for i, n in enumerate((2, 4, 3, 5, 7))]
    leaves = [t for pair in lists for t in pair]
    for _ in range(2):
        batched = check(lambda pair: (pair[0] @ pair[1]).exp().mean(), lists, parameters=leaves)
    assert batched.stats()["launches"] == 3
