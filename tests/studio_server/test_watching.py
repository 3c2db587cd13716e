"""The hook at the end of a step: nothing where nobody looks, records and captures where somebody does."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.core.tensor import Tensor
from extempo.nn import functional as F
from extempo.studio_server.session import Session
from extempo.studio_server.watching import TrainingWatch


@pytest.fixture
def session():
    made = Session()
    yield made
    if made.watch is not None:
        made.watch.end()


def begun(session, model=None):
    watch = TrainingWatch(session, model)
    session.begin_run(watch, "")
    return watch


class Loop:
    def __init__(self):
        ex.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        self.optimizer = ex.optim.Adam(self.model.parameters(), lr=0.1)
        self.losses = []

    def step(self):
        loss = F.cross_entropy(self.model(ex.ones(2, 3)), ex.tensor([0, 1]))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(float(loss.item()))


def test_where_nobody_looks_steps_are_counted_and_nothing_else(session):
    watch, loop = begun(session), Loop()
    owner = next(cls for cls in Tensor.__mro__ if "backward" in vars(cls))
    plain = vars(owner)["backward"]
    for _ in range(5):
        loop.step()
    assert watch.n_steps == 5
    assert session.run.records == []
    assert vars(owner)["backward"] is plain
    assert watch.capture is None


def test_a_page_that_looks_gets_every_figure_of_the_steps(session):
    watch, loop = begun(session), Loop()
    session.outboxes.add()
    watch.pacing.between_notes = 0.0
    session.every = 1
    for _ in range(4):
        loop.step()
    records = session.run.records
    assert [r["step"] for r in records] == [1, 2, 3, 4]
    assert [r["loss"] for r in records[1:]] == pytest.approx(loop.losses[1:])
    assert records[-1]["lr"] == [0.1]
    assert set(records[-1]["gradients"]) == {"0", "1"}
    assert records[-1]["memory"]["parameters"] == 4 * (3 * 4 + 4 + 4 * 2 + 2)
    assert records[-1]["captured"] == 3
    assert session.run.model == "Sequential"
    assert watch.model is loop.model


def test_when_the_last_page_goes_nothing_stays_behind(session):
    watch, loop = begun(session), Loop()
    owner = next(cls for cls in Tensor.__mro__ if "backward" in vars(cls))
    plain = vars(owner)["backward"]
    box = session.outboxes.add()
    session.every = 1
    loop.step()
    assert vars(owner)["backward"] is not plain
    session.outboxes.remove(box)
    loop.step()
    loop.step()
    assert vars(owner)["backward"] is plain
    assert watch.capture is None
    assert all(not module._call_hooks for module in loop.model.modules())


def test_looking_changes_no_bit_of_what_is_learnt(session):
    plain = Loop()
    for _ in range(6):
        plain.step()
    begun(session)
    session.outboxes.add()
    watched = Loop()
    for every in (1, 1, None, None, 2, 2):
        session.every = every
        watched.step()
    assert watched.losses == plain.losses
    assert [p.tolist() for p in watched.model.parameters()] == [p.tolist() for p in plain.model.parameters()]


@pytest.mark.parametrize("way", ["compile", "batch"])
def test_compiled_and_batched_steps_are_captured_op_by_op_and_learn_the_same(session, way):
    def losses(watched):
        ex.manual_seed(1)
        model = nn.Linear(3, 1)
        optimizer = ex.optim.SGD(model.parameters(), lr=0.1)

        def run(x):
            return ex.stack(ex.batch(model)(list(x))) if way == "batch" else model(x)

        def step(x):
            loss = run(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        compiled = ex.compile(step) if way == "compile" else step
        return [float(compiled(ex.ones(4, 3)).item()) for _ in range(6)]

    plain = losses(False)
    begun(session)
    session.outboxes.add()
    session.every = 2
    assert losses(True) == plain
    assert session.captures.numbers()


def test_a_second_optimizer_ends_no_iteration(session):
    watch, loop = begun(session), Loop()
    other = ex.optim.SGD([ex.ones(1, requires_grad=True)], lr=0.1)
    for _ in range(3):
        loop.step()
        other.step()
    assert watch.n_steps == 3


def test_steps_of_other_threads_are_left_alone(session):
    import threading

    watch, loop = begun(session), Loop()
    loop.step()
    thread = threading.Thread(target=loop.step)
    thread.start()
    thread.join()
    assert watch.n_steps == 1


def test_the_model_is_the_outermost_one_that_has_the_parameters(session):
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

    whole = Whole()
    optimizer = ex.optim.SGD(whole.inner.parameters(), lr=0.1)
    watch = begun(session)
    whole.inner(ex.ones(1, 2)).sum().backward()
    optimizer.step()
    assert watch.model is whole


def test_a_loss_that_nobody_keeps_is_not_known_and_no_error(session):
    watch = begun(session)
    session.outboxes.add()
    watch.pacing.between_notes = 0.0
    model = nn.Linear(2, 1)
    optimizer = ex.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(ex.ones(1, 2)).sum().backward()
        optimizer.step()
    assert session.run.records[-1]["loss"] is None


def test_a_profile_tells_the_phases_of_a_step(session):
    watch, loop = begun(session), Loop()
    session.outboxes.add()
    watch.pacing.next_look = lambda: "profile"
    for _ in range(3):
        loop.step()
    phases = session.run.records[-1]["phases"]
    assert phases["backward"] > 0
    assert phases["optimizer"] >= 0


def test_a_loop_without_a_module_is_captured_and_a_model_is_not_looked_for_at_every_step(session, monkeypatch):
    from extempo.studio_server import watching

    searches = []
    monkeypatch.setattr(watching, "models_of", lambda parameters: searches.append(1) or [])
    watch = begun(session)
    session.outboxes.add()
    watch.pacing.between_notes = 0.0
    session.every = 1
    w = ex.ones(3, requires_grad=True)
    optimizer = ex.optim.SGD([w], lr=0.1)
    for _ in range(50):
        loss = (w * w).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert session.captures.numbers()
    assert 1 <= len(searches) <= 7
    assert session.run.records[-1]["loss"] is not None
