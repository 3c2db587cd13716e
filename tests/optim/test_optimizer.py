"""What every optimizer shares: groups, options, state, checkpoints, hooks, copies."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest

import extempo as ex
from extempo import optim
from extempo.errors import ArgumentError, DtypeError, ExtempoError, ShapeError
from extempo.optim.optimizer import options_among

ALL = [
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.Adamax,
    optim.NAdam,
    optim.RAdam,
    optim.Adagrad,
    optim.Adadelta,
    optim.RMSprop,
    optim.Rprop,
    optim.ASGD,
    optim.LBFGS,
]
every_optimizer = pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)


def parameters():
    return [ex.tensor([[1.0, -2.0], [3.0, 0.5]], requires_grad=True), ex.tensor([0.5, -1.5], requires_grad=True)]


def loss_of(params):
    w, b = params
    return ((w @ ex.tensor([1.0, 2.0]) + b - ex.tensor([0.5, -0.5])) ** 2).sum() + (w * w).sum()


def train(optimizer, params, n_steps=3):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(params)
        loss.backward()
        return loss

    return [float(optimizer.step(closure)) for _ in range(n_steps)]


@every_optimizer
def test_steps_lower_the_loss(cls):
    params = parameters()
    optimizer = cls(params, lr=0.5 if cls is optim.LBFGS else 0.01)
    losses = train(optimizer, params, 10)
    assert losses[-1] < losses[0]


@every_optimizer
def test_training_goes_on_exactly_from_a_checkpoint(cls):
    params = parameters()
    optimizer = cls(params, lr=0.05)
    train(optimizer, params)
    state = copy.deepcopy(optimizer.state_dict())
    again = [p.detach().clone().requires_grad_() for p in params]
    restored = cls(again)
    restored.load_state_dict(state)
    assert restored.param_groups[0]["lr"] == 0.05
    assert train(optimizer, params) == train(restored, again)
    for p, q in zip(params, again, strict=True):
        assert ex.equal(p.detach(), q.detach())


@every_optimizer
@pytest.mark.parametrize("copier", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
def test_a_copy_trains_on_like_the_original(cls, copier):
    params = parameters()
    optimizer = cls(params, lr=0.05)
    train(optimizer, params)
    other, others = copier((optimizer, params))
    assert other.param_groups[0]["params"][0] is others[0]
    assert train(other, others) == train(optimizer, params)


@every_optimizer
def test_a_parameter_without_a_gradient_is_left_alone(cls):
    used, unused = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    optimizer = cls([unused, used], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (used * used).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert unused.tolist() == [1.0, 1.0]
    assert used.tolist() != [1.0, 1.0]


@every_optimizer
def test_repr_shows_the_options_of_each_group(cls):
    text = repr(cls(parameters(), lr=0.25))
    assert text.startswith(f"{cls.__name__} (\nParameter Group 0\n")
    assert "\n    lr: 0.25\n" in text
    assert text.endswith("\n)")


@every_optimizer
@pytest.mark.parametrize("lr", [-1.0, float("nan"), ex.tensor([0.1, 0.2])], ids=["negative", "nan", "two"])
def test_a_rate_that_is_none_is_refused(cls, lr):
    with pytest.raises(ValueError, match="lr"):
        cls(parameters(), lr=lr)


@pytest.mark.parametrize("cls", [c for c in ALL if c is not optim.LBFGS], ids=lambda cls: cls.__name__)
def test_boilerplate_options_are_accepted(cls):
    accepted = {"foreach": True}
    if cls in (optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad):
        accepted["fused"] = True
    if cls not in (optim.SGD, optim.Adagrad):
        accepted["capturable"] = True
    params = parameters()
    train(cls(params, **accepted), params, 1)


def test_groups_have_options_of_their_own():
    a, b = ex.ones(1, requires_grad=True), ex.ones(1, requires_grad=True)
    optimizer = optim.SGD([{"params": [a], "lr": 0.5}, {"params": b}], lr=0.25)
    a.grad, b.grad = ex.ones(1), ex.ones(1)
    optimizer.step()
    assert (a.item(), b.item()) == (0.5, 0.75)


def test_a_tensor_rate_is_read_at_every_step():
    p = ex.zeros(1, requires_grad=True)
    lr = ex.tensor(1.0)
    optimizer = optim.SGD([p], lr=lr)
    p.grad = ex.ones(1)
    optimizer.step()
    lr.fill_(0.5)
    optimizer.step()
    assert p.item() == -1.5


def test_wrong_parameters_are_named():
    leaf = ex.ones(1, requires_grad=True)
    cases = [
        (leaf, TypeError, "pass \\[tensor\\]"),
        ([], ValueError, "empty"),
        ([leaf * 2], ValueError, r"params\[0\] was computed"),
        ([leaf, "w"], TypeError, r"params\[1\] is a str"),
        ([("w", leaf), ex.ones(1)], ValueError, "name all or none"),
        ([{"params": {leaf}}], TypeError, "order of a set"),
        ([{"params": [leaf]}, {"params": [leaf]}], ValueError, "another group"),
        ([{"params": [("a", leaf)]}, {"params": [ex.ones(1)]}], ValueError, "without names"),
    ]
    for params, error, message in cases:
        with pytest.raises(error, match=message) as caught:
            optim.SGD(params)
        assert isinstance(caught.value, ExtempoError)


def test_a_refused_group_changes_nothing():
    a, b = ex.ones(1, requires_grad=True), ex.ones(1, requires_grad=True)
    optimizer = optim.SGD([a])
    group = {"params": [b, a]}
    with pytest.raises(ArgumentError):
        optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1
    assert group["params"] == [b, a] or group["params"][0] is b


def test_a_group_added_later_is_trained():
    a, b = ex.ones(1, requires_grad=True), ex.ones(1, requires_grad=True)
    optimizer = optim.Adam([a], lr=0.1)
    for p in (a, b):
        p.grad = ex.ones(1)
    optimizer.step()
    optimizer.add_param_group({"params": [b], "lr": 0.2})
    optimizer.step()
    assert b.item() == pytest.approx(0.8)
    assert optimizer.state[b]["step"].item() == 1.0
    assert optimizer.state[a]["step"].item() == 2.0


def test_names_of_parameters_are_kept_in_checkpoints():
    a, b = parameters()
    optimizer = optim.SGD([("a", a), ("b", b)])
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]
    other = optim.SGD([("x", a), ("y", b)])
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["param_names"] == ["a", "b"]


def test_a_state_of_numpy_arrays_loads():
    params = parameters()
    optimizer = optim.Adam(params)
    state = {
        i: {
            "step": np.float32(3.0) * np.ones((), np.float32),
            "exp_avg": np.full(tuple(p.shape), 0.5),
            "exp_avg_sq": np.ones(tuple(p.shape)),
        }
        for i, p in enumerate(params)
    }
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    assert optimizer.state[params[0]]["exp_avg"].dtype is ex.float32
    train(optimizer, params, 1)
    assert optimizer.state[params[0]]["step"].item() == 4.0


def test_step_counts_that_are_numbers_load():
    params = parameters()
    optimizer = optim.Adam(params)
    train(optimizer, params, 1)
    state = optimizer.state_dict()
    state["state"] = {k: v | {"step": 7} for k, v in state["state"].items()}
    optimizer.load_state_dict(state)
    train(optimizer, params, 1)
    assert ex.equal(optimizer.state[params[0]]["step"], ex.tensor(8.0))


def test_loading_copies():
    params = parameters()
    optimizer = optim.SGD(params, momentum=0.9)
    train(optimizer, params, 1)
    state = optimizer.state_dict()
    other = optim.SGD(params)
    other.load_state_dict(state)
    other.state[params[0]]["momentum_buffer"].zero_()
    other.param_groups[0]["lr"] = 5.0
    assert optimizer.state[params[0]]["momentum_buffer"].abs().sum() > 0
    assert optimizer.param_groups[0]["lr"] != 5.0


def test_a_state_that_does_not_fit_is_refused_whole():
    params = parameters()
    optimizer = optim.Adam(params)
    train(optimizer, params, 1)
    good = copy.deepcopy(optimizer.state_dict())
    bad = copy.deepcopy(good)
    bad["state"][0]["exp_avg"] = ex.ones(3)
    bad["state"][1]["exp_avg_sq"] = ex.ones(4)
    bad["param_groups"][0]["lr"] = 99.0
    with pytest.raises(ShapeError, match=r"state\[0\]\['exp_avg'\].*state\[1\]\['exp_avg_sq'\]"):
        optimizer.load_state_dict(bad)
    with pytest.raises(ShapeError, match=r"groups of \[2\] parameters, this optimizer of \[1\]"):
        optim.Adam(params[:1]).load_state_dict(good)
    assert optimizer.param_groups[0]["lr"] == 1e-3
    assert ex.equal(optimizer.state[params[0]]["exp_avg"], good["state"][0]["exp_avg"])


def test_adamw_stays_decoupled_when_it_loads_the_state_of_an_adam():
    params = parameters()
    optimizer = optim.AdamW(params)
    optimizer.load_state_dict(optim.Adam(params).state_dict())
    assert optimizer.param_groups[0]["decoupled_weight_decay"] is True


def test_zero_grad_can_keep_zeros():
    params = parameters()
    optimizer = optim.SGD(params)
    loss_of(params).backward()
    optimizer.zero_grad(set_to_none=False)
    assert all(p.grad.abs().sum() == 0 for p in params)
    optimizer.zero_grad()
    assert all(p.grad is None for p in params)


def test_hooks_run_around_each_step_and_can_be_removed():
    params = parameters()
    optimizer = optim.SGD(params)
    seen = []
    handles = [
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", o is optimizer, args[1:]))),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(("after", o is optimizer, kwargs))),
    ]
    optimizer.step()
    assert seen == [("before", True, ()), ("after", True, {})]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 2


def test_a_pre_hook_can_give_the_step_a_closure():
    params = parameters()
    optimizer = optim.SGD(params)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 42.0), kwargs))
    assert optimizer.step() == 42.0
    optimizer.register_step_pre_hook(lambda o, args, kwargs: "nonsense")
    with pytest.raises(DtypeError, match="nonsense"):
        optimizer.step()


def test_a_step_of_a_subclass_that_calls_its_parent_runs_hooks_once():
    class Twice(optim.SGD):
        def step(self, closure=None):
            super().step()
            super().step()

    p = ex.zeros(1, requires_grad=True)
    p.grad = ex.ones(1)
    optimizer = Twice([p], lr=1.0)
    seen = []
    optimizer.register_step_post_hook(lambda *args: seen.append(1))
    optimizer.step()
    assert (p.item(), seen) == (-2.0, [1])


def test_state_dict_hooks_can_change_what_is_saved_and_loaded():
    params = parameters()
    optimizer = optim.SGD(params)
    calls = []
    optimizer.register_state_dict_pre_hook(lambda o: calls.append("save"))
    optimizer.register_state_dict_post_hook(lambda o, s: s | {"note": "here"})
    optimizer.register_load_state_dict_pre_hook(lambda o, s: calls.append(s.pop("note")))
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["save", "here", "loaded"]


def test_a_closure_is_run_with_gradients_on():
    params = parameters()
    optimizer = optim.SGD(params, lr=0.01)
    with ex.no_grad():
        assert train(optimizer, params, 2)[1] < loss_of(parameters()).item()


def test_wrong_moments_are_refused():
    for cls, options in [
        (optim.Adam, {"betas": (1.0, 0.9)}),
        (optim.Adam, {"eps": -1.0}),
        (optim.Adam, {"betas": (0.9, ex.tensor(0.9))}),
        (optim.SGD, {"momentum": -0.1}),
        (optim.SGD, {"nesterov": True}),
        (optim.Adadelta, {"rho": 1.5}),
        (optim.Rprop, {"etas": (1.0, 1.2)}),
        (optim.RMSprop, {"weight_decay": -1.0}),
        (optim.LBFGS, {"line_search_fn": "golden"}),
    ]:
        with pytest.raises(ValueError, match=cls.__name__):
            cls(parameters(), **options)


@every_optimizer
def test_the_options_of_an_optimizer_are_the_arguments_of_its_constructor(cls):
    signature = inspect.signature(cls).parameters
    defaults = cls(parameters()).defaults
    assert list(signature)[:2] == ["params", "lr"]
    assert set(signature) - set(defaults) == {"params"}
    assert set(defaults) - set(signature) == ({"decoupled_weight_decay"} if cls is optim.AdamW else set())
    worked_out = {"max_eval", "decoupled_weight_decay"}
    assert all(defaults[name] == signature[name].default for name in defaults.keys() - worked_out)


def test_options_among_the_arguments_leave_out_the_optimizer_and_its_parameters():
    assert options_among({"self": 1, "params": 2, "lr": 3, "__class__": 4}) == {"lr": 3}


def test_no_parameters_at_all_are_an_argument_that_cannot_work():
    with pytest.raises(ArgumentError, match=r"SGD: params is empty; .* use nn\.ModuleList"):
        optim.SGD([], lr=0.1)
    with pytest.raises(ArgumentError, match="Adam: lr must not be negative, got -1"):
        optim.Adam([ex.zeros(2, requires_grad=True)], lr=-1)


def test_an_optimizer_may_wrap_another_without_being_one_itself():
    class Twice(optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner
            self.param_groups = inner.param_groups

        def step(self, closure=None):
            self.inner.step()
            self.inner.step()

    p = ex.ones(1, requires_grad=True)
    p.grad = ex.ones(1)
    Twice(ex.optim.SGD([p], lr=0.25)).step()
    assert p.item() == 0.5
