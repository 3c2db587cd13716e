"""Steps notice every change of groups, state, parameters and gradients, however it was made.

A program that keeps changing things runs twice: as it is, and with optimizers that look at everything anew in each step
and update one parameter after the other. Values, state, versions and the lines of the last writes must be equal.
"""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest

import extempo as ex
from extempo import optim
from extempo.optim import flat_buffers
from extempo.optim.change_detection import SAME_CONTENTS, SAME_OPTIONS, Seen, contents_of, options_of, unknown

SHAPES = [(5, 3), (7,), (2, 3, 4), ()]
OPTIMIZERS = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    (optim.Adam, {"lr": 0.1}),
    (optim.AdamW, {"lr": 0.1, "amsgrad": True}),
    (optim.RMSprop, {"lr": 0.1}),
    (optim.ASGD, {"lr": 0.1, "t0": 2}),
]
IDS = [f"{cls.__name__}-{i}" for i, (cls, _) in enumerate(OPTIMIZERS)]


@pytest.fixture
def look_anew(monkeypatch):
    def start():
        monkeypatch.setattr(Seen, "same", lambda *_: 0)
        monkeypatch.setattr(flat_buffers, "gradients_in_place", lambda *_: None)

    return start


class Program:
    """A training that is disturbed between its steps."""

    def __init__(self, cls, options, seed):
        self.cls = cls
        self.random = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.params = [self.parameter(shape) for shape in SHAPES]
        halves = [{"params": self.params[:2]}, {"params": self.params[2:], "lr": 0.05}]
        self.optimizer = cls(halves if seed % 2 else list(self.params), **options)
        self.held = []

    def parameter(self, shape):
        return ex.tensor(self.rng.normal(size=shape), dtype=ex.float32).requires_grad_()

    def any_parameter(self):
        return self.random.choice(self.params)

    def any_group(self):
        return self.random.choice(self.optimizer.param_groups)

    def any_state(self):
        p = self.any_parameter()
        return p, self.optimizer.state.get(p, {})

    # ---- what can happen between two steps

    def nothing(self):
        pass

    def new_rate(self):
        self.any_group()["lr"] = self.random.choice([0.01, 0.2, np.float64(0.03), 1])

    def tensor_rate(self):
        self.any_group()["lr"] = ex.tensor(0.07)

    def write_tensor_rate(self):
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], ex.Tensor):
                group["lr"].mul_(0.5)

    def write_into_betas(self):
        group = self.any_group()
        if "betas" in group:
            group["betas"] = list(group["betas"])
            self.step()
            group["betas"][0] = 0.5

    def decay(self):
        self.any_group()["weight_decay"] = self.random.choice([0, 0.0, 0.3])

    def uphill(self):
        group = self.any_group()
        group["maximize"] = not group["maximize"]

    def exchange_two_options(self):
        group = self.any_group()
        items = list(group.items())
        names = [{"lr": "weight_decay", "weight_decay": "lr"}.get(key, key) for key, _ in items]
        values = [value for _, value in items]
        group.clear()
        group.update(zip(names, values, strict=True))

    def another_dict_for_a_group(self):
        groups = self.optimizer.param_groups
        i = self.random.randrange(len(groups))
        before, groups[i] = groups[i], dict(groups[i])
        before["lr"] = 1e6

    def key_of_another_object(self):
        group = self.any_group()
        group["".join(["par", "ams"])] = group.pop("params")

    def tuple_of_parameters(self):
        group = self.any_group()
        group["params"] = tuple(group["params"])
        self.step()
        group["params"] = list(group["params"])

    def replace_parameter(self):
        group = self.any_group()
        i = self.random.randrange(len(group["params"]))
        old = group["params"][i]
        group["params"][i] = new = self.parameter(tuple(old.shape))
        self.params = [new if p is old else p for p in self.params]
        self.optimizer.state.pop(old, None)  # a checkpoint would not know whose it is
        new.grad = ex.ones_like(new)

    def turn_parameters(self):
        self.any_group()["params"].reverse()

    def forget_state(self):
        p, _ = self.any_state()
        self.optimizer.state.pop(p, None)

    def replace_moment(self):
        p, state = self.any_state()
        for key, value in state.items():
            if value.ndim:
                state[key] = ex.full_like(p.detach(), 0.25)

    def write_moment(self):
        _, state = self.any_state()
        for value in state.values():
            value.mul_(0.5)

    def other_count(self):
        _, state = self.any_state()
        if "step" in state:
            state["step"].fill_(7)

    def state_in_another_dict(self):
        p, state = self.any_state()
        if state:
            self.optimizer.state[p] = dict(state)

    def reload(self):
        self.optimizer.load_state_dict(pickle.loads(pickle.dumps(self.optimizer.state_dict())))

    def other_memory(self):
        p = self.any_parameter()
        p.data = p.detach().clone() * 2

    def seen_by_others(self):
        self.held.append(self.any_parameter().detach())

    def write_parameter(self):
        with ex.no_grad():
            self.any_parameter().mul_(0.9)

    def no_gradient(self):
        self.any_parameter().grad = None

    def gradient_in_other_order(self):
        for p in self.params:
            if p.ndim == 2 and p.grad is not None:
                p.grad = p.grad.t().clone().t()

    def frozen(self):
        p = self.any_parameter()
        p.requires_grad_(not p.requires_grad)

    def hook(self):
        handle = self.optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: self.new_rate())
        self.step()
        handle.remove()

    # ---- running

    def step(self):
        self.optimizer.step()

    def give_gradients(self):
        for p in self.params:
            p.grad = ex.tensor(self.rng.normal(size=tuple(p.shape)), dtype=p.dtype)

    def run(self, n_steps=60):
        names = [n for n in vars(Program) if not n.startswith("_") and n not in NOT_DISTURBING]
        for _ in range(n_steps):
            self.optimizer.zero_grad()
            assert all(p.grad is None for p in self.params)
            self.give_gradients()
            getattr(self, self.random.choice([*names, *["nothing"] * len(names)]))()
            self.step()
            yield self.picture()

    def picture(self):
        params = [(p.detach().numpy().tobytes(), p._storage.version, p._storage.written_at) for p in self.params]
        states = [self.optimizer.state.get(p, {}) for p in self.params]
        return params, [{k: v.numpy().tobytes() for k, v in state.items()} for state in states]


NOT_DISTURBING = ("parameter", "any_parameter", "any_group", "any_state", "step", "give_gradients", "run", "picture")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("cls", "options"), OPTIMIZERS, ids=IDS)
def test_a_disturbed_training_gives_what_looking_at_everything_gives(cls, options, seed, look_anew):
    quick = list(Program(cls, options, seed).run())
    look_anew()
    for i, expected in enumerate(Program(cls, options, seed).run()):
        assert quick[i] == expected, f"step {i}"


def test_every_write_is_counted_and_says_where():
    params = [ex.ones(3, requires_grad=True), ex.ones(2, 2, requires_grad=True)]
    optimizer = optim.Adam(params)
    for n_writes in range(1, 6):
        for p in params:
            p.grad = ex.ones_like(p)
        optimizer.step()
        code, _ = params[0]._storage.written_at
        assert code is test_every_write_is_counted_and_says_where.__code__
        assert [p._storage.version for p in params] == [n_writes] * 2
        moments = {id(s): s for p in params for s in (v._storage for v in optimizer.state[p].values())}
        assert {s.version for s in moments.values()} == {n_writes}


def test_what_is_the_same_is_found_by_identity():
    found = Seen()
    p, entry = ex.ones(1), {"step": 1.0}
    groups, state = [{"params": [p], "lr": 0.1}], {p: entry}
    assert found.same(groups, state) == 0
    found.contents, found.options = contents_of(groups, state), options_of(groups)
    assert found.same(groups, state) == SAME_CONTENTS | SAME_OPTIONS
    groups[0]["lr"] = float("0.1")
    assert found.same(groups, state) == SAME_CONTENTS
    found.options = options_of(groups)
    entry["step"] = float("1.5")
    assert found.same(groups, state) == SAME_OPTIONS
    entry.clear()
    assert found.same(groups, state) == SAME_OPTIONS
    assert found.same([*groups, {"params": []}], state) == 0


@pytest.mark.parametrize("state", [{1: None}, {1: [2]}, {1: 0.5}], ids=str)
def test_a_state_of_another_form_is_never_the_same(state):
    found = Seen()
    groups = [{"params": [ex.ones(1)]}]
    found.contents = contents_of(groups, state)
    assert not found.same(groups, state) & SAME_CONTENTS


def test_options_that_can_change_in_place_are_never_the_same():
    for value in (ex.tensor(0.1), [0.9, 0.99], (0.9, ex.tensor(0.99)), {}):
        found = Seen()
        groups = [{"params": [], "option": value}]
        found.options = options_of(groups)
        assert not found.same(groups, {}) & SAME_OPTIONS
    assert unknown() != unknown()
