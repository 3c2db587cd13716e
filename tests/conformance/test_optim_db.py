"""Optimizers and schedules against PyTorch: every configuration of optim_db, 20 steps from the same weights."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import extempo as ex
from extempo import optim
from extempo.optim import lr_scheduler

pytestmark = pytest.mark.conformance
torch = pytest.importorskip("torch", reason="conformance needs PyTorch: pip install -e '.[conformance]'")
pytest.importorskip("expecttest", reason="PyTorch's optim_db needs expecttest: pip install -e '.[conformance]'")

from torch.testing._internal.common_optimizers import optim_db  # noqa: E402 - needs PyTorch

OURS = [info for info in optim_db if info.optim_cls.__name__ in optim.__all__]
SHAPES = [(4, 3), (4,), (2, 3, 2), (1,), ()]
MATRICES = [(4, 3), (3, 4), (5, 5), (1, 2), (2, 1)]
N_STEPS = 20
NOT_OURS = {"SparseAdam"}


def configurations():
    for info in OURS:
        for i, sample in enumerate(info.optim_inputs_func(device="cpu")):
            yield pytest.param(info, sample, id=f"{info.name}-{i}-{sample.desc or 'plain'}")


def ours(value):
    """The same option for Extempo."""
    if isinstance(value, torch.Tensor):
        return ex.from_dlpack(value.detach().clone())
    if isinstance(value, tuple):
        return tuple(map(ours, value))
    return value


def shapes(name):
    return MATRICES if name == "Muon" else SHAPES


def start(name, dtype=np.float32):
    rng = np.random.default_rng(7)
    return [np.asarray(rng.normal(size=s), dtype) for s in shapes(name)]


def gradients(name, step, dtype=np.float32):
    rng = np.random.default_rng(100 + step)
    # Every third step one parameter has no gradient, so its moments and step count must stand still.
    return [
        None if step % 3 == 1 and i == step % len(SHAPES) else np.asarray(rng.normal(size=s), dtype)
        for i, s in enumerate(shapes(name))
    ]


def run(optimizer, parameters, make, steps=range(N_STEPS), loss=None):
    for step in steps:
        if loss is None:
            for p, g in zip(parameters, gradients(type(optimizer).__name__, step), strict=True):
                p.grad = None if g is None else make(g)
            optimizer.step()
            continue

        def closure():
            optimizer.zero_grad()
            value = sum(((p * p - 1.0) ** 2).sum() + (p * p).sum() for p in parameters)
            value.backward()
            return value

        optimizer.step(closure)


def pair(info, sample):
    kwargs = sample.kwargs
    theirs = [torch.tensor(a, requires_grad=True) for a in start(info.name)]
    mine = [ex.tensor(a, requires_grad=True) for a in start(info.name)]
    their_optimizer = info.optim_cls(theirs, **copy.deepcopy(kwargs))
    my_optimizer = getattr(optim, info.name)(mine, **{k: ours(v) for k, v in kwargs.items()})
    return theirs, their_optimizer, mine, my_optimizer


def assert_equal(mine, theirs, info):
    # LBFGS branches on its own rounding errors (is this step good enough?), so they grow faster there.
    # Muon rounds to bfloat16, which makes a difference in the last bit of a sum 2**16 times as large.
    tolerance = 2e-4 if info.step_requires_closure else 2e-5 if info.name == "Muon" else 3e-6
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize(("info", "sample"), list(configurations()))
def test_optimizer_takes_the_same_20_steps(info, sample):
    theirs, their_optimizer, mine, my_optimizer = pair(info, sample)
    loss = "closure" if info.step_requires_closure else None
    run(their_optimizer, theirs, torch.tensor, loss=loss)
    run(my_optimizer, mine, ex.tensor, loss=loss)
    assert_equal(mine, theirs, info)


@pytest.mark.parametrize(("info", "sample"), list(configurations()))
def test_state_has_the_same_keys_and_values_and_loads_as_it_is(info, sample):
    theirs, their_optimizer, mine, my_optimizer = pair(info, sample)
    loss = "closure" if info.step_requires_closure else None
    run(their_optimizer, theirs, torch.tensor, range(5), loss)
    run(my_optimizer, mine, ex.tensor, range(5), loss)
    their_state = their_optimizer.state_dict()
    if not info.step_requires_closure:
        assert {k: set(v) for k, v in my_optimizer.state_dict()["state"].items()} == {
            k: {name for name, value in v.items() if value is not None} for k, v in their_state["state"].items()
        }
        for key, entry in my_optimizer.state_dict()["state"].items():
            for name, value in entry.items():
                expected = their_state["state"][key][name]
                assert str(value.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
                np.testing.assert_allclose(value.numpy(), expected.numpy(), rtol=3e-5, atol=1e-6)
    group = {k: v for k, v in my_optimizer.state_dict()["param_groups"][0].items() if k != "params"}
    assert set(group) == set(their_state["param_groups"][0]) - {"params"}
    # A fresh optimizer on the same values, given PyTorch's state, goes on as PyTorch does.
    again = [ex.tensor(p.detach().numpy(), requires_grad=True) for p in theirs]
    fresh = getattr(optim, info.name)(again)
    fresh.load_state_dict(their_state)
    run(their_optimizer, theirs, torch.tensor, range(5, 10), loss)
    run(fresh, again, ex.tensor, range(5, 10), loss)
    assert_equal(again, theirs, info)


@pytest.mark.parametrize("info", OURS, ids=lambda info: info.name)
def test_half_precision_stays_near_pytorch(info):
    if info.step_requires_closure:
        pytest.skip("LBFGS branches on rounding errors, which are large in half precision")
    for name in ("float16", "bfloat16"):
        values = [torch.tensor(a).to(getattr(torch, name)) for a in start(info.name)]
        theirs = [v.clone().requires_grad_() for v in values]
        mine = [ex.from_dlpack(v.clone()).requires_grad_() for v in values]
        # A large eps: float16 cannot hold the default 1e-8, and PyTorch computes in float16.
        options = {"eps": 1e-3} if isinstance(info.optim_cls(theirs).defaults.get("eps"), float) else {}
        their_optimizer, my_optimizer = info.optim_cls(theirs, **options), getattr(optim, info.name)(mine, **options)
        run(their_optimizer, theirs, lambda g, name=name: torch.tensor(g).to(getattr(torch, name)), range(4))
        run(my_optimizer, mine, lambda g, name=name: ex.tensor(g).to(getattr(ex, name)), range(4))
        for a, b in zip(mine, theirs, strict=True):
            assert str(a.dtype).endswith(name)
            np.testing.assert_allclose(a.detach().float().numpy(), b.detach().float().numpy(), rtol=0.1, atol=0.1)


class Twins:
    """Extempo's parameters for PyTorch's, the same one for the same one."""

    def __init__(self):
        self.known = {}

    def of(self, params):
        if isinstance(params, torch.Tensor):
            return self.known.setdefault(id(params), ex.ones(*params.shape, requires_grad=True))
        if isinstance(params, dict):
            return {k: self.of(v) if k == "params" else v for k, v in params.items()}
        if isinstance(params, tuple | list):
            return type(params)(map(self.of, params))
        return params


@pytest.mark.parametrize("info", OURS, ids=lambda info: info.name)
def test_wrong_options_are_refused_with_the_same_kind_of_error(info):
    for error in info.optim_error_inputs_func("cpu", torch.float32):
        sample = error.optimizer_error_input
        if "foreach" in sample.kwargs or error.error_type not in (ValueError, TypeError):
            continue  # implementations of PyTorch, which are no choice here
        params = [ex.ones(1, requires_grad=True)] if sample.params is None else Twins().of(sample.params)
        options = {k: ours(v) for k, v in sample.kwargs.items()}
        with pytest.raises(error.error_type):
            getattr(optim, info.name)(params, **options)


def test_what_is_missing_is_known():
    assert {info.name for info in optim_db} - {info.name for info in OURS} == NOT_OURS


# ---- schedules

T, M = torch.optim.lr_scheduler, lr_scheduler


def schedules():
    return {
        "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda e: 0.95**e, lambda e: 1 / (1 + e)]),
        "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.97),
        "StepLR": lambda s, o: s.StepLR(o, 7, 0.5),
        "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 3, 12, 40], 0.3),
        "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 9),
        "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.9, 17),
        "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
        "PolynomialLR": lambda s, o: s.PolynomialLR(o, 30, 2.5),
        "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 12, 1e-3),
        "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2, 1e-3),
        "CosineAnnealingWarmRestarts, equal": lambda s, o: s.CosineAnnealingWarmRestarts(o, 6),
        "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, [0.1, 0.2], 4, 7),
        "CyclicLR, triangular2": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, mode="triangular2"),
        "CyclicLR, exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.98),
        "CyclicLR, scale_fn": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, scale_fn=lambda x: 1 / x, cycle_momentum=False),
        "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=60),
        "OneCycleLR, three phases": lambda s, o: s.OneCycleLR(
            o, [0.5, 0.3], epochs=6, steps_per_epoch=10, three_phase=True, anneal_strategy="linear", pct_start=0.4
        ),
        "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.9)]),
        "SequentialLR": lambda s, o: s.SequentialLR(
            o, [s.LinearLR(o, 0.1, total_iters=8), s.CosineAnnealingLR(o, 20), s.StepLR(o, 5)], [8, 30]
        ),
        "SequentialLR of chained": lambda s, o: s.SequentialLR(
            o, [s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.StepLR(o, 3)]), s.ExponentialLR(o, 0.9)], [10]
        ),
        "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(
            o, factor=0.5, patience=2, cooldown=1, min_lr=[1e-3, 1e-2]
        ),
        "ReduceLROnPlateau, max": lambda s, o: s.ReduceLROnPlateau(
            o, "max", patience=1, threshold_mode="abs", threshold=0.05
        ),
    }


def metric(step):
    return float(np.random.default_rng(step).normal() + 3.0 / (1 + step))


def advance(schedule, step):
    if type(schedule).__name__ == "ReduceLROnPlateau":
        schedule.step(metric(step))
    else:
        schedule.step()


def optimizers(cls, **options):
    theirs = getattr(torch.optim, cls)(
        [{"params": [torch.ones(1, requires_grad=True)]}, {"params": [torch.ones(1, requires_grad=True)], "lr": 0.05}],
        lr=0.1,
        **options,
    )
    mine = getattr(optim, cls)(
        [{"params": [ex.ones(1, requires_grad=True)]}, {"params": [ex.ones(1, requires_grad=True)], "lr": 0.05}],
        lr=0.1,
        **options,
    )
    return theirs, mine


@pytest.mark.parametrize(("cls", "options"), [("SGD", {"momentum": 0.9}), ("Adam", {})])
@pytest.mark.parametrize("name", list(schedules()))
@pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler.step:UserWarning")
def test_schedule_sets_the_same_rates_over_50_steps(name, cls, options):
    theirs, mine = optimizers(cls, **options)
    their_schedule, my_schedule = schedules()[name](T, theirs), schedules()[name](M, mine)
    for step in range(50):
        for a, b in zip(mine.param_groups, theirs.param_groups, strict=True):
            assert a["lr"] == pytest.approx(b["lr"], rel=1e-12, abs=1e-15), f"step {step}"
            assert a.get("momentum") == pytest.approx(b.get("momentum"))
            assert a.get("betas") == pytest.approx(b.get("betas"))
        assert my_schedule.get_last_lr() == pytest.approx(their_schedule.get_last_lr())
        for optimizer, schedule in ((theirs, their_schedule), (mine, my_schedule)):
            optimizer.step()
            advance(schedule, step)
        if step == 20:
            # PyTorch's checkpoint, loaded into a fresh schedule, goes on as PyTorch does.
            fresh = optimizers(cls, **options)[1]
            my_schedule = schedules()[name](M, fresh)
            my_schedule.load_state_dict(their_schedule.state_dict())
            fresh.load_state_dict(theirs.state_dict())
            fresh.step()
            mine = fresh


def test_swa_rates_are_the_same():
    for options in ({}, {"anneal_epochs": 0}, {"anneal_epochs": 4, "anneal_strategy": "linear"}):
        theirs, mine = optimizers("SGD")
        pairs = [
            (theirs, torch.optim.swa_utils.SWALR(theirs, 0.02, **options)),
            (mine, optim.swa_utils.SWALR(mine, 0.02, **options)),
        ]
        for _ in range(12):
            for optimizer, schedule in pairs:
                optimizer.step()
                schedule.step()
            assert pairs[1][1].get_last_lr() == pytest.approx(pairs[0][1].get_last_lr())
