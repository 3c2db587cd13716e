"""What a compiled function has recorded is bounded: what never came up again goes, what repeats keeps its plans."""

from __future__ import annotations

import gc
import random

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.core.op import REGISTRY
from extempo.core.trace_tree import TraceNode, TraceOp
from extempo.core.types import TensorType
from extempo.dispatch.dispatcher import signature_of
from extempo.tracing import compiled_function
from extempo.tracing.compiled_function import CompiledFunction
from extempo.tracing.eviction import _in_order, prune
from extempo.tracing.segment import PLANS, Segment

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")
pytestmark = pytest.mark.skipif(ex.backends.selection.native() is None, reason="the native backend does not run here")

BOUND = 300
OPS = [ex.tanh, ex.sin, ex.cos, ex.sigmoid, lambda x: x * 1.5]


@pytest.fixture(autouse=True)
def everything_is_recorded(monkeypatch):
    """Nothing is run eagerly to save the price of recording, and little may be kept that is new."""
    monkeypatch.setattr(CompiledFunction, "_may_plan", planned_when_seen_again)
    monkeypatch.setattr(compiled_function, "MOST_NEW_STEPS", BOUND)
    monkeypatch.setattr(compiled_function, "MOST_NEW_CALLS", 1)
    ex.compile.clear()


def planned_when_seen_again(self, flush, n_steps, is_range=False, is_loop=False):
    flush.seen += 1
    return is_range or flush.seen > 1


def chain(x, w, structure):
    """Ops in the order that the structure says, and a gradient."""
    y = x @ w
    for k in structure:
        y = OPS[k](y)
    loss = (y * y).mean()
    loss.backward()
    gradient, w.grad = w.grad, None
    return loss.detach(), gradient


def made(fn):
    """A function as it is compiled, with a count of what its trie holds."""
    compiled = CompiledFunction(fn, "f")
    return compiled.run, compiled


def bits(results):
    return [r.numpy().tobytes() for r in results]


def leaves(n=4):
    return ex.randn(n, 6), ex.randn(6, 5).requires_grad_()


def test_ever_new_structures_keep_the_trie_small_and_eager_bits():
    draws = random.Random(0)
    x, w = leaves()
    f, compiled = made(chain)
    most = 0
    for _ in range(150):
        structure = [draws.randrange(len(OPS)) for _ in range(draws.randint(5, 25))]
        assert bits(f(x, w, structure)) == bits(chain(x, w, structure))
        most = max(most, len(_in_order(compiled.root)))
    assert compiled.counters.new_steps > 3 * BOUND
    assert most < 2 * BOUND
    assert compiled.evicted > BOUND
    assert compiled.stats()["steps_known"] < 2 * BOUND


def test_what_repeats_among_them_keeps_its_plan():
    draws = random.Random(1)
    x, w = leaves()
    f, compiled = made(chain)
    again = [0, 1, 2, 3]
    for _ in range(3):
        f(x, w, again)
    known = compiled.counters.plans
    assert known
    for _ in range(100):
        f(x, w, [draws.randrange(len(OPS)) for _ in range(20)])
        runs = compiled.counters.runs
        assert bits(f(x, w, again)) == bits(chain(x, w, again))
        assert compiled.counters.runs > runs
    assert compiled.evicted > BOUND
    assert compiled.counters.plans == known


def test_sizes_that_follow_from_others_go_on_to_follow(monkeypatch):
    draws = random.Random(2)
    _, w = leaves()
    f, compiled = made(chain)
    sizes = random.Random(3).sample(range(9, 400), 60)
    n_like_others = 0
    for k, n in enumerate(sizes):
        x = ex.randn(n, 6)
        f(x, w, [draws.randrange(len(OPS)) for _ in range(20)])
        before = compiled.counters.new_steps
        assert bits(f(x, w, [0, 1, 2])) == bits(chain(x, w, [0, 1, 2]))
        n_like_others += k > 20 and compiled.counters.new_steps == before
    assert compiled.evicted > BOUND
    assert n_like_others > 30


def test_all_is_forgotten_where_too_much_repeats(monkeypatch):
    monkeypatch.setattr(compiled_function, "MOST_STEPS", BOUND)
    x, w = leaves()
    f, compiled = made(chain)
    for _ in range(3):
        for k in range(80):
            structure = [k // 5**i % 5 for i in range(4)] * 2
            for _ in range(2):
                assert bits(f(x, w, structure)) == bits(chain(x, w, structure))
            assert len(_in_order(compiled.root)) < 3 * BOUND
    assert compiled.evicted > 2 * BOUND


def test_training_goes_on_alike_when_all_is_pruned_in_between():
    def trained(wrap):
        ex.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = optim.Adam(model.parameters())
        x, draws = ex.randn(7, 6), random.Random(4)

        @wrap
        def step(structure):
            y = model(x)
            for k in structure:
                y = OPS[k](y)
            loss = y.pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        for _ in range(120):
            step([draws.randrange(len(OPS)) for _ in range(draws.randint(0, 12))])
        return [p.detach().numpy().tobytes() for p in model.parameters()]

    assert trained(ex.compile) == trained(lambda fn: fn)


def test_evictions_are_said_in_words(monkeypatch):
    said = []
    monkeypatch.setattr(compiled_function, "log", said.append)
    draws = random.Random(5)
    x, w = leaves()
    f, compiled = made(chain)
    for _ in range(40):
        f(x, w, [draws.randrange(len(OPS)) for _ in range(20)])
    assert any(text.startswith("f: evicted") and "never came up again" in text for text in said)
    assert f"{compiled.evicted:,} recorded ops evicted" in str(ex.compile.stats())


def test_a_function_that_is_gone_takes_its_plans_with_it():
    x, w = leaves()
    gc.collect()
    before = len(PLANS)
    f, compiled = made(chain)
    for _ in range(3):
        f(x, w, [0, 1])
    assert len(PLANS) > before
    del f, compiled
    gc.collect()
    assert len(PLANS) == before


# ---- pruning by itself


def grown(root, names):
    """Edges of these ops, one after another; the node at the end."""
    types = (TensorType((3,), ex.float32),)
    for name in names:
        op = REGISTRY[name]
        parts = (signature_of(op, (), types, {}), root.n_places, 0, True, (), None, None, None, None)
        root = root.add(TraceOp(op, {}, (root.n_places - 1,), types, *parts)).following
    return root


def segment_at(node, seen):
    segment = Segment((), [], [], node.after_flush(), None, frozenset())
    segment.seen = seen
    return node.remember(b"", segment)


def test_what_leads_to_a_segment_that_was_met_twice_stays_and_the_rest_goes():
    root = TraceNode()
    repeated = segment_at(grown(root, ["exp", "neg"]), seen=2)
    segment_at(grown(root, ["exp", "tanh"]), seen=1)
    segment_at(grown(root, ["abs"]), seen=1)
    n_kept = prune(root)
    exp = root.edges()
    assert [step.op.name for step in exp] == ["exp"]
    assert [step.op.name for step in exp[0].following.edges()] == ["neg"]
    assert repeated.following in _in_order(root)
    assert n_kept == 4  # the root, two ops, and what follows the segment


def test_a_tree_in_which_nothing_was_met_twice_is_its_root():
    root = TraceNode()
    segment_at(grown(root, ["exp"]), seen=1)
    assert prune(root) == 1
    assert root.edges() == ()
    assert prune(TraceNode()) == 1
