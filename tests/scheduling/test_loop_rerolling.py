"""Plans of long loops are made from those of short ones, and are the same to the bit."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

import extempo as ex
from extempo.backends.selection import native
from extempo.scheduling import pipeline
from extempo.scheduling.loop_detection import HEAD, LEAST, TAIL, find_loop
from extempo.scheduling.pipeline import PlanningJob
from extempo.scheduling.request import Request, forget, plan

from .taping import check, record

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

F = ex.nn.functional


def draw(*shape, seed=0, requires_grad=True):
    values = np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32) * 0.4
    return ex.tensor(values, requires_grad=requires_grad)


@pytest.fixture
def rolled(monkeypatch):
    """For each plan that is made: whether by way of a shorter loop."""
    found = []
    made = PlanningJob.made

    def note(self, *arguments):
        plan = made(self, *arguments)
        found.append(self._stretch is not None)
        return plan

    monkeypatch.setattr(PlanningJob, "made", note)
    return found


@pytest.fixture
def n_planned(monkeypatch):
    """How often nodes were made for a request."""
    found = []
    made = pipeline.Planner.nodes

    def note(self, *arguments):
        found.append(len(self._steps))
        return made(self, *arguments)

    monkeypatch.setattr(pipeline.Planner, "nodes", note)
    forget()
    return found


def inputs(n, *shape, requires_grad=False):
    return [draw(*shape, seed=7 + i, requires_grad=requires_grad) for i in range(n)]


def lstm(w, u, b, h, c, *xs):
    for x in xs:
        i, f, g, o = (x @ w + h @ u + b).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return (h * h).sum()


def gru(w, u, b, h, *xs):
    for x in xs:
        a, e = x @ w + b, h @ u
        z, r = (a[:, :6] + e[:, :6]).sigmoid().chunk(2, 1)
        h = (1 - z) * (a[:, 6:] + r * e[:, 6:]).tanh() + z * h
    return h.mean()


def losses(w, u, h, *xs):
    total = 0.0
    for x in xs:
        h = (x @ w + h @ u).tanh()
        total = total + F.cross_entropy(h, LABELS) * 0.25
    return total


def two_layers(w, u, h, k, *xs):
    for x in xs:
        h = (x @ w + h @ u).tanh()
        k = (h @ u + k @ u).relu() * 0.9
    return k.sum()


def normed(w, g, h, *xs):
    for x in xs:
        h = F.layer_norm(h @ w + x, (3,), g)
        h = F.softmax(h, -1) + h
    return h.sum()


def independent(w, *xs):
    total = xs[0].sum() * 0
    for x in xs:
        total = total + ((x @ w).tanh() ** 2).sum()
    return total


def elementwise(h, *xs):
    for x in xs:
        h = (h * 1.01 + x).tanh() * x
    return h.sum()


LABELS = ex.tensor([0, 2])
LSTM = [(4, 12), (3, 12), (12,), (2, 3), (2, 3)]
CASES = {
    "an LSTM": (lstm, LSTM, (2, 4), True),
    "a GRU with slices": (gru, [(4, 9), (3, 9), (9,), (2, 3)], (2, 4), True),
    "a loss at every step": (losses, [(4, 3), (3, 3), (2, 3)], (2, 4), True),
    "two layers": (two_layers, [(4, 3), (3, 3), (2, 3), (2, 3)], (2, 4), True),
    "several results": (normed, [(3, 3), (3,), (2, 3)], (2, 3), True),
    "a sum over steps": (independent, [(4, 3)], (2, 4), True),
    "what is fused across steps": (elementwise, [(2, 3)], (2, 3), False),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [20, 21, 40])
def test_a_long_loop_has_eager_bits(name, n, rolled):
    fn, shapes, shape, expected = CASES[name]
    arguments = [draw(*s, seed=i) for i, s in enumerate(shapes)]
    check(fn, [*arguments, *inputs(n, *shape)])
    assert rolled == [expected]


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][3]])
def test_other_lengths_have_the_short_loop_in_common(name, n_planned):
    fn, shapes, shape, _ = CASES[name]
    arguments = [draw(*s, seed=i) for i, s in enumerate(shapes)]
    for n in (20, LEAST + 2, 40, 21):
        check(fn, [*arguments, *inputs(n, *shape)])
    assert len(n_planned) == 1


def test_a_loop_of_other_sizes_is_planned_anew(n_planned):
    for n_features in (3, 5, 3):
        shapes = [
            (4, 4 * n_features),
            (n_features, 4 * n_features),
            (4 * n_features,),
            (2, n_features),
            (2, n_features),
        ]
        check(lstm, [*(draw(*s, seed=i) for i, s in enumerate(shapes)), *inputs(20, 2, 4)])
    assert len(n_planned) == 2


def test_what_follows_a_loop_is_part_of_what_it_is_known_by(n_planned):
    def fn(w, u, h, *xs):
        for x in xs:
            h = (x @ w + h @ u).tanh()
        return (h * h).sum() if len(xs) > 30 else (h + h).sum()

    for n in (20, 40, 25):
        check(fn, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(n, 2, 4)])
    assert len(n_planned) == 2


def test_numbers_and_starts_are_those_of_their_step_at_every_length(n_planned):
    def with_numbers(w, h, *xs):
        h = h * 1.5 + w[1, 0] * 0.125
        for i, x in enumerate(xs):
            h = (x @ w + h * (0.5 + i / 64)).tanh() + i / 8
        return (h * 0.75 + len(xs)).sum() * 0.375

    def with_starts(w, u, h, *xs):
        n = len(xs)
        big = u * 2.0
        h = h @ big[n % 3 : n % 3 + 3]
        for x in xs:
            h = (x @ w + h).tanh()
        return (h @ big[n % 2 : n % 2 + 3]).sum()

    for n in (33, 12, 20):
        check(with_numbers, [draw(4, 3), draw(2, 3), *inputs(n, 2, 4)])
    assert len(n_planned) == 1
    for n in (33, 12, 20):
        check(with_starts, [draw(4, 3), draw(6, 3), draw(2, 3), *inputs(n, 2, 4)], fixed_starts=False)
    assert len(n_planned) == 2


def test_only_forward(rolled):
    arguments = [draw(*s, seed=i, requires_grad=False) for i, s in enumerate(LSTM)]
    check(lstm, [*arguments, *inputs(30, 2, 4)])
    assert rolled == [True]


def test_inputs_with_gradients_are_planned_as_they_are(rolled):
    arguments = [draw(*s, seed=i) for i, s in enumerate(LSTM)]
    check(lstm, [*arguments, *inputs(20, 2, 4, requires_grad=True)])
    assert rolled == [False]


def test_states_that_are_needed_later_are_planned_as_they_are(rolled):
    def stacked(w, u, h, *xs):
        states = []
        for x in xs:
            h = (x @ w + h @ u).tanh()
            states.append(h)
        return (ex.stack(states) ** 2).sum()

    check(stacked, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(20, 2, 4)])
    assert rolled == [False]


def test_what_comes_before_and_after_a_loop_reads_its_ends(rolled):
    def fn(w, u, h, *xs):
        h = (h @ u).relu() * 0.5
        first = h
        for x in xs:
            h = (x @ w + h @ u).tanh()
            last, first = h, first
        return ((h + last) * 3.0 + first).sum() + (w.sum() * 0.125).tanh()

    check(fn, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(25, 2, 4)])
    assert rolled == [True]


def test_two_loops(rolled):
    def fn(w, u, h, *xs):
        for x in xs[:30]:
            h = (x @ w + h @ u).tanh()
        for x in xs[30:]:
            h = (x @ w * 0.5 + h).sigmoid()
        return h.sum()

    check(fn, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(50, 2, 4)])
    assert rolled == [True]


def test_one_odd_step_ends_a_loop(rolled):
    def fn(w, u, h, *xs):
        for i, x in enumerate(xs):
            h = (x @ w + h @ u).tanh()
            if i == 33:
                h = h * 2
        return h.sum()

    check(fn, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(36, 2, 4)])
    check(fn, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(40, 2, 4)])
    assert rolled == [True, True]


def test_steps_that_ran_before_are_read_from_what_was_kept(rolled):
    arguments = [draw(*s, seed=i) for i, s in enumerate(LSTM)]
    check(lstm, [*arguments, *inputs(30, 2, 4)], cut=51)
    assert len(rolled) == 2


def test_numbers_are_those_of_their_step(rolled):
    def fn(w, h, *xs):
        for i, x in enumerate(xs):
            h = (x @ w + h * (0.5 + i / 64)).tanh() + i / 8
        return (h * 0.75).sum()

    check(fn, [draw(4, 3), draw(2, 3), *inputs(33, 2, 4)])
    assert rolled == [True]


MOVES = [
    lambda x, h, c, w, u, b, number: h @ u,
    lambda x, h, c, w, u, b, number: x @ w,
    lambda x, h, c, w, u, b, number: h * number + c,
    lambda x, h, c, w, u, b, number: h.tanh() * c.sigmoid(),
    lambda x, h, c, w, u, b, number: ex.cat([h[:, 2:], c[:, :2]], 1),
    lambda x, h, c, w, u, b, number: F.softmax(h + c, -1),
    lambda x, h, c, w, u, b, number: F.layer_norm(h, (4,)) + b,
    lambda x, h, c, w, u, b, number: h - c.mean(0),
    lambda x, h, c, w, u, b, number: h.relu() + h.sum(1, keepdim=True) * 0.1,
    lambda x, h, c, w, u, b, number: (h.T @ c) @ u.T,
    lambda x, h, c, w, u, b, number: h.T.reshape(2, 8).reshape(4, 4) * c,
]


@pytest.mark.parametrize("seed", range(40))
def test_a_random_loop_has_eager_bits(seed, rolled):
    rng = np.random.default_rng(seed)
    choices = rng.integers(0, 11, rng.integers(3, 9)).tolist()
    numbers = rng.normal(size=len(choices)).tolist()

    def body(x, h, c, w, u, b):
        for choice, number in zip(choices, numbers, strict=True):
            h, c = MOVES[choice](x, h, c, w, u, b, number), h
        return h.tanh(), c.tanh()

    def fn(w, u, b, h, c, *xs):
        total = (h * 0).sum()
        for x in xs:
            h, c = body(x, h, c, w, u, b)
            if seed % 3 == 0:
                total = total + h.sum() * 0.5
        return total + (h * c).sum()

    shapes = [(3, 4), (4, 4), (4,), (4, 4), (4, 4)]
    arguments = [draw(*s, seed=i) for i, s in enumerate(shapes)]
    check(fn, [*arguments, *inputs(int(rng.integers(17, 40)), 4, 3)])


def test_planning_a_loop_takes_no_longer_the_longer_it_is():
    def n_nodes(n):
        tape, (result,) = record(lstm, [*(draw(*s, seed=i) for i, s in enumerate(LSTM)), *inputs(n, 2, 4)])
        request = Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(result),))
        loop = find_loop(request)
        assert loop.n_windows in (n - 1, n)
        assert loop.n_windows - loop.n_left_out == HEAD + TAIL
        return plan(request).n_instructions

    assert n_nodes(60) - n_nodes(40) == n_nodes(80) - n_nodes(60)
