"""Native optimizer updates: the bits of the NumPy pass, and not one byte outside their operands."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import optim
from extempo.backends.selection import native
from extempo.dispatch import fused_update
from extempo.dispatch.fused_update import Update, UpdateKernel, numpy_update
from extempo.optim.adam import _adam, _adamax, _nadam, _radam
from extempo.optim.adaptive import _adadelta, _adagrad, _rmsprop, _rprop
from extempo.optim.sgd import _averaged, _descend

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")
if native() is None:
    pytest.skip("the native backend is off", allow_module_level=True)

from extempo.backends.llvm.routines import updates

GUARD = 16
SENTINEL = -12345.0

# (update, number of moments)
UPDATES = {
    "sgd": (Update(UpdateKernel(_descend, (False, False)), (0.1, 0.0, 1.0)), 0),
    "sgd first": (Update(UpdateKernel(_descend, (True, False)), (0.1, 0.9, 0.8)), 1),
    "sgd momentum": (Update(UpdateKernel(_descend, (False, False), True, "added"), (0.1, 0.9, 0.8, 0.01)), 1),
    "sgd nesterov": (Update(UpdateKernel(_descend, (False, True)), (0.1, 0.9, 1.0)), 1),
    "asgd": (Update(UpdateKernel(_averaged, (False,)), (0.1, 0.99, 0.3)), 1),
    "asgd first": (Update(UpdateKernel(_averaged, (True,)), (0.1, 0.99, 1.0)), 1),
    "adam": (Update(UpdateKernel(_adam, (True,)), (0.1, 0.999, 0.001, 1e-8, 0.03)), 2),
    "adam far": (Update(UpdateKernel(_adam, (False,)), (0.2, 0.9, 0.1, 1e-8, 0.03)), 2),
    "adamw amsgrad": (
        Update(UpdateKernel(_adam, (True,), True, "decoupled"), (0.1, 0.999, 0.001, 1e-8, 0.03, 0.999)),
        3,
    ),
    "adamax": (Update(UpdateKernel(_adamax, (True,)), (0.1, 0.99, 1e-8, 0.1)), 2),
    "nadam": (Update(UpdateKernel(_nadam, (True,)), (0.1, 0.99, 0.01, 0.2, 1e-8, 0.1, 0.2)), 2),
    "radam": (Update(UpdateKernel(_radam, (True, False)), (0.1, 0.99, 0.01, 1e-8, 0.1)), 2),
    "radam rectified": (Update(UpdateKernel(_radam, (True, True)), (0.1, 0.99, 0.01, 1e-8, 0.1)), 2),
    "adagrad": (Update(UpdateKernel(_adagrad, ()), (1e-10, 0.1)), 1),
    "adadelta": (Update(UpdateKernel(_adadelta, ()), (0.9, 0.1, 1e-6, 1.0)), 2),
    "rmsprop": (Update(UpdateKernel(_rmsprop, (False, False, True)), (0.9, 0.1, 1e-8, 0.1, 0.0, 0.1)), 1),
    "rmsprop all": (Update(UpdateKernel(_rmsprop, (True, True, True)), (0.9, 0.1, 1e-8, 0.1, 0.5, 0.1)), 3),
    "rprop": (Update(UpdateKernel(_rprop, ()), (0.5, 1.2, 1e-6, 50.0)), 2),
}


def kernel(name, dtype):
    update, n_moments = UPDATES[name]
    return updates.update_function(
        f"{update.kind.name}_{n_moments}", update.kind, len(update.numbers), n_moments, np.dtype(dtype)
    )


def guarded(values):
    """A copy of the values inside memory whose every other byte is watched."""
    whole = np.full(values.size + 2 * GUARD, SENTINEL, values.dtype)
    whole[GUARD : GUARD + values.size] = values.reshape(-1)
    return whole, whole[GUARD : GUARD + values.size].reshape(values.shape)


def draw(rng, shape, dtype, n_moments, name):
    x, g = rng.normal(size=shape).astype(dtype), rng.normal(size=shape).astype(dtype)
    g.reshape(-1)[::5] = 0.0
    moments = [np.abs(rng.normal(size=shape)).astype(dtype) for _ in range(n_moments)]
    if name == "rprop":
        moments[0] *= np.sign(rng.normal(size=shape)).astype(dtype)
    return x, g, moments


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_native_update_has_the_bits_of_numpy_and_touches_nothing_else(name, dtype):
    update, n_moments = UPDATES[name]
    run, rng = kernel(name, dtype), np.random.default_rng(0)
    for n in [*range(20), 31, 32, 33, 70]:
        x, g, moments = draw(rng, (n,), dtype, n_moments, name)
        held = [guarded(a) for a in (x, g, *moments)]
        inside = [view for _, view in held]
        places = updates.places(x.dtype, inside[0], inside[2:])
        with np.errstate(all="ignore"):
            numpy_update(update, g.copy(), x, moments)
        assert run(places, update.numbers, [inside[0]], [inside[1]])
        for (whole, view), expected in zip(held, (x, g, *moments), strict=True):
            assert view.tobytes() == expected.tobytes()
            assert (whole[:GUARD] == SENTINEL).all()
            assert (whole[GUARD + n :] == SENTINEL).all()


def test_parameters_of_many_sizes_with_gaps_between_them_are_updated_in_one_call():
    update, _ = UPDATES["adam"]
    run, rng = kernel("adam", np.float32), np.random.default_rng(1)
    shapes = [(3, 5), (), (0, 4), (16,), (1, 1, 7), (130,)]
    flats = [np.full(400, SENTINEL, np.float32) for _ in range(3)]
    values, moments, expected, start = [], [], [], 3
    for shape in shapes:
        size = int(np.prod(shape))
        places = [flat[start : start + size].reshape(shape) for flat in flats]
        for place in places:
            place[...] = np.abs(rng.normal(size=shape))
        values.append(places[0])
        moments.append(places[1:])
        start += size + 5
    gradients = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    before = [flat.copy() for flat in flats]
    for x, m, g in zip(values, moments, gradients, strict=True):
        copies = [a.copy() for a in (x, *m)]
        numpy_update(update, g, copies[0], copies[1:])
        expected.append(copies)
    assert run(updates.places(np.dtype(np.float32), flats[0], flats[1:]), update.numbers, values, gradients)
    for x, m, want in zip(values, moments, expected, strict=True):
        assert [a.tobytes() for a in (x, *m)] == [a.tobytes() for a in want]
    for flat, old in zip(flats, before, strict=True):
        assert (flat[old == SENTINEL] == SENTINEL).all()


def test_more_than_one_chunk_gives_the_same_bits():
    update, _ = UPDATES["sgd momentum"]
    run, rng = kernel("sgd momentum", np.float32), np.random.default_rng(2)
    sizes = [updates.CHUNK - 3, 1, 2 * updates.CHUNK + 5, 7]
    flat, velocity = (rng.normal(size=sum(sizes)).astype(np.float32) for _ in range(2))
    ends = np.cumsum(sizes)
    values = [flat[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    gradients = [rng.normal(size=size).astype(np.float32) for size in sizes]
    expected = [flat.copy(), velocity.copy()]
    numpy_update(update, np.concatenate(gradients), expected[0], expected[1:])
    assert run(updates.places(flat.dtype, flat, [velocity]), update.numbers, values, gradients)
    assert flat.tobytes() == expected[0].tobytes()
    assert velocity.tobytes() == expected[1].tobytes()


@pytest.mark.parametrize(
    "gradient",
    [
        np.ones((2, 4), np.float32),
        np.ones(6, np.float32),
        np.ones((2, 3, 1), np.float32),
        np.ones((2, 3)),
        np.ones((3, 2), np.float32).T,
        np.ones((2, 6), np.float32)[:, ::2],
        np.ones((2, 3), np.dtype(np.float32).newbyteorder()),
        None,
    ],
    ids=["wider", "flat", "deeper", "float64", "transposed", "strided", "swapped", "none"],
)
def test_an_array_of_another_form_is_declined_before_anything_is_written(gradient):
    update, _ = UPDATES["sgd"]
    run = kernel("sgd", np.float32)
    first, second = np.ones(5, np.float32), np.ones((2, 3), np.float32)
    places = updates.places(first.dtype, first, [])
    assert not run(places, update.numbers, [first, second], [np.ones(5, np.float32), gradient])
    assert not run(places, update.numbers, [first, second], [np.ones(5, np.float32)])
    assert first.tolist() == [1.0] * 5
    assert (second == 1.0).all()


CONFIGURATIONS = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    (optim.Adam, {"lr": 0.1, "weight_decay": 0.1}),
    (optim.Adam, {"lr": 0.1, "amsgrad": True, "maximize": True, "betas": (0.4, 0.9)}),
    (optim.AdamW, {"lr": 0.1}),
    (optim.Adamax, {"lr": 0.1}),
    (optim.NAdam, {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    (optim.RAdam, {"lr": 0.1, "betas": (0.8, 0.9)}),
    (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.2}),
    (optim.Adadelta, {"lr": 0.5}),
    (optim.RMSprop, {"lr": 0.1, "momentum": 0.5, "centered": True}),
    (optim.Rprop, {"lr": 0.1}),
    (optim.ASGD, {"lr": 0.1, "t0": 2}),
]


def trained(cls, options, dtype):
    rng = np.random.default_rng(3)
    shapes = [(5, 3), (7,), (), (1, 130)]
    params = [ex.tensor(rng.normal(size=s), dtype=dtype).requires_grad_() for s in shapes]
    optimizer = cls(params, **options)
    for step in range(7):
        for i, p in enumerate(params):
            g = ex.tensor(rng.normal(size=tuple(p.shape)), dtype=dtype)
            p.grad = None if (i + step) % 4 == 0 else g
        if step == 5:  # not one plain run of memory
            params[0].grad = ex.tensor(rng.normal(size=(3, 5)), dtype=dtype).t()
        optimizer.step()
    state = [[v.numpy().tobytes() for v in optimizer.state[p].values()] for p in params]
    return [p.detach().numpy().tobytes() for p in params], state


@pytest.mark.parametrize("dtype", [ex.float32, ex.float64, ex.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("cls", "options"), CONFIGURATIONS, ids=[f"{c.__name__}{i}" for i, (c, _) in enumerate(CONFIGURATIONS)]
)
def test_an_optimizer_gives_the_same_bits_natively_and_by_numpy(cls, options, dtype, monkeypatch):
    calls = []
    build = fused_update._build

    def counted(update, n_moments, d):
        made = build(update, n_moments, d)
        return made and (lambda *args: calls.append(d) or made(*args))

    monkeypatch.setattr(fused_update, "_build", counted)
    monkeypatch.setattr(fused_update, "_NATIVE", ex.core.cache.Cache("optimizer kernels under test", 1000))
    natively = trained(cls, options, dtype)
    assert bool(calls) == (dtype is not ex.bfloat16)
    monkeypatch.setattr(fused_update, "native_update", lambda *_: None)
    monkeypatch.setattr(optim.flat_buffers, "native_update", lambda *_: None)
    assert trained(cls, options, dtype) == natively


def test_the_usual_step_is_one_native_call(monkeypatch):
    model = ex.nn.Sequential(ex.nn.Linear(4, 8), ex.nn.Linear(8, 2))
    optimizer = optim.Adam(model.parameters())
    calls = []

    def train():
        optimizer.zero_grad()
        model(ex.ones(3, 4)).sum().backward()
        optimizer.step()

    def counted(*args):
        made = fused_update.native_update(*args)
        return lambda *given: calls.append(len(given[2])) or made(*given)

    monkeypatch.setattr(optim.flat_buffers, "native_update", counted)
    train()
    train()
    calls.clear()
    train()
    assert calls == [4]


def test_a_formula_without_a_name_of_its_own_runs_by_numpy():
    def formula(m, numbers, choices, x, g):
        return (x - g * numbers[0],)

    assert fused_update.native_update(Update(UpdateKernel(formula), (0.5,)), 0, np.dtype(np.float32)) is None
    values = np.ones(3, np.float32)
    numpy_update(Update(UpdateKernel(formula), (0.5,)), np.ones(3, np.float32), values, [])
    assert values.tolist() == [0.5] * 3
