"""Views share memory, can be written through, and every write reaches the gradient."""

from __future__ import annotations

import random

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ShapeError

from .helpers import grid

VIEWS = {
    "view": lambda x: x.view(4, 3),
    "reshape": lambda x: x.reshape(2, 6),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "unflatten": lambda x: x.unflatten(1, (2, -1)),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "T": lambda x: x.T,
    "movedim": lambda x: x.movedim(0, 1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(),
    "select": lambda x: x.select(1, -1),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "int and slice": lambda x: x[1, ::2],
    "None and dots": lambda x: x[..., None, 1:3],
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(1, 2, 2),
    "as_strided": lambda x: x.as_strided((2, 2), (4, 1), 1),
    "split": lambda x: x.split([1, 3], 1)[1],
    "chunk": lambda x: x.chunk(2, 1)[0],
    "unbind": lambda x: x.unbind(1)[2],
    "tensor_split": lambda x: x.tensor_split(3, 1)[0],
    "expand of size 1": lambda x: x.expand(1, 3, 4),
    "one copy out of an expanded tensor": lambda x: x.expand(2, 3, 4)[1],
    "detach": lambda x: x.detach(),
    "chain": lambda x: x.T.unsqueeze(0)[:, 1:].diagonal(0, 1, 2)[0, 1:],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_write_to_a_view_is_seen_in_the_base_and_the_other_way_round(view):
    base = grid(3, 4)
    seen = view(base)
    marks = view(grid(3, 4)).numpy().astype(int).reshape(-1)
    seen.fill_(-1.0)
    np.testing.assert_array_equal(np.flatnonzero(base.numpy() == -1), np.unique(marks))
    base.fill_(7.0)
    assert (seen.numpy() == 7).all()


@pytest.mark.parametrize("name", [n for n in VIEWS if n != "detach"])
def test_a_write_to_a_view_cuts_the_gradient_of_what_it_replaced(name):
    x = ex.ones(3, 4, requires_grad=True)
    value = ex.tensor(2.0, requires_grad=True)
    y = x * 3
    seen = VIEWS[name](y)
    seen.copy_(value * 5)
    weights = grid(3, 4)
    gx, gv = ex.autograd.grad((y * weights).sum(), [x, value])
    replaced = np.isin(np.arange(12), VIEWS[name](grid(3, 4)).numpy()).reshape(3, 4)
    np.testing.assert_array_equal(gx.numpy(), np.where(replaced, 0, 3 * weights.numpy()))
    assert gv.item() == 5 * weights.numpy()[replaced].sum()


def test_writes_through_chains_of_views_are_differentiated():
    x = ex.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 1
    y.T[0].mul_(10.0)
    y.view(6)[4:] = y.view(6)[:2].clone() * 2
    y.diagonal().add_(1.0)
    (g,) = ex.autograd.grad(y.sum(), x)
    np.testing.assert_array_equal(y.detach().numpy(), [[1, 1, 2], [30, 1, 2]])
    np.testing.assert_array_equal(g.numpy(), [[30, 3, 1], [10, 0, 0]])


def test_a_view_taken_before_a_write_to_its_base_follows_it():
    x = ex.ones(3, requires_grad=True)
    y = x * 1
    seen = y[1:]
    y.mul_(x * 4)
    (g,) = ex.autograd.grad(seen.sum(), x)
    np.testing.assert_array_equal(g.numpy(), [0, 8, 8])


def test_a_write_through_a_view_can_be_differentiated_twice():
    x = ex.arange(3.0).requires_grad_()
    y = x * 1
    y[1:] *= y[1:].clone()
    (g,) = ex.autograd.grad((y * y).sum(), x, create_graph=True)
    (gg,) = ex.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(gg.numpy(), [2, 12, 48])


def test_a_base_that_lies_column_by_column_is_written_where_its_view_looks():
    base = ex.from_numpy(np.asfortranarray(np.zeros((2, 3))))
    value = ex.arange(6.0, dtype=ex.float64).requires_grad_()
    base.t().reshape(-1).copy_(value)
    np.testing.assert_array_equal(base.detach().numpy(), [[0, 2, 4], [1, 3, 5]])
    (g,) = ex.autograd.grad((base * ex.arange(6.0, dtype=ex.float64).reshape(2, 3)).sum(), value)
    np.testing.assert_array_equal(g.numpy(), [0, 3, 1, 4, 2, 5])


def test_overlapping_windows_add_their_gradients():
    x = ex.arange(5.0).requires_grad_()
    (g,) = ex.autograd.grad((x.unfold(0, 3, 1) * grid(3, 3)).sum(), x)
    np.testing.assert_array_equal(g.numpy(), [0, 1 + 3, 2 + 4 + 6, 5 + 7, 8])
    (g,) = ex.autograd.grad((x.as_strided((3, 3), (1, 1)) * grid(3, 3)).sum(), x)
    np.testing.assert_array_equal(g.numpy(), [0, 1 + 3, 2 + 4 + 6, 5 + 7, 8])


def test_as_strided_sees_the_memory_and_not_the_elements():
    x = grid(3, 4)
    part = x[1:, ::2]
    np.testing.assert_array_equal(part.as_strided((3,), (1,)).numpy(), [4, 5, 6])
    np.testing.assert_array_equal(part.as_strided((3,), (1,), 0).numpy(), [0, 1, 2])


def test_as_strided_of_a_view_gives_gradient_to_the_elements_that_the_view_has():
    x = grid(3, 4).requires_grad_()
    part = (x * 1)[:, ::2]
    (g,) = ex.autograd.grad(part.as_strided((4,), (1,)).sum(), part)
    np.testing.assert_array_equal(g.numpy(), [[1, 1], [0, 0], [0, 0]])


def test_as_strided_cannot_leave_the_memory():
    with pytest.raises(ShapeError, match=r"reach from element 0 to 12, the storage has 12"):
        grid(3, 4).as_strided((13,), (1,))
    with pytest.raises(ShapeError, match="none negative"):
        grid(3, 4).as_strided((2,), (-1,))


def test_an_expanded_tensor_cannot_be_written_as_a_whole():
    x = ex.ones(3)
    with pytest.raises(ShapeError, match="share memory"):
        x.expand(2, 3).add_(1.0)
    x.expand(1, 3).add_(1.0)
    assert x.tolist() == [2.0, 2.0, 2.0]


def test_0_dim_tensors_have_views_too():
    x = ex.tensor(3.0)
    assert x.T.shape == ()
    assert x.H.shape == ()
    assert x.flatten().shape == (1,)
    assert x.ravel().shape == (1,)
    assert x.view(1, 1).shape == (1, 1)
    assert x.transpose(0, -1).item() == 3.0
    assert x.squeeze(0).shape == ()
    assert x.unfold(0, 1, 1).shape == (1,)
    assert x.movedim(0, 0).item() == 3.0
    assert x.permute(()).shape == ()


def test_empty_tensors_have_views_too():
    x = ex.zeros(0, 3)
    assert x.T.shape == (3, 0)
    assert x.flatten().shape == (0,)
    assert x.view(3, 0).shape == (3, 0)
    assert x.unfold(1, 2, 1).shape == (0, 2, 2)
    assert x.diagonal().shape == (0,)
    assert x.ravel().shape == (0,)
    assert x.as_strided((0, 2), (1, 1)).shape == (0, 2)


def _random_program(choose: random.Random, x, xp):
    """Views and writes on x, the same ones for NumPy arrays and tensors; returns the base."""
    base = x * 2.0
    seen = [base]
    for _ in range(choose.randint(3, 8)):
        target = seen[choose.randrange(len(seen))]
        shape = tuple(target.shape)
        kind = choose.choice(["slice", "swap", "diagonal", "select", "none", "add", "scale", "set", "mask", "rows"])
        if kind == "slice" and shape:
            d, step = choose.randrange(len(shape)), choose.choice([1, 2])
            start = choose.randint(0, shape[d])
            seen.append(target[(slice(None),) * d + (slice(start, None, step),)])
        elif kind == "swap" and len(shape) > 1:
            seen.append(target.swapaxes(0, -1))
        elif kind == "diagonal" and len(shape) > 1:
            made = target.diagonal(choose.choice([-1, 0, 1]))
            if xp is np:
                made.flags.writeable = True
            seen.append(made)
        elif kind == "select" and shape and shape[0]:
            i = choose.randrange(shape[0])
            seen.append(target[i, ...])
        elif kind == "none":
            seen.append(target[None])
        elif kind == "add":
            target += choose.uniform(-1, 1)
        elif kind == "scale":
            target *= choose.uniform(-1, 1)
        elif kind == "set" and shape and shape[-1]:
            source = target[..., -1:] * 0.5
            target[..., : choose.randint(0, shape[-1])] = source
        elif kind == "mask":
            target[target > 0.3] = 0.25
        elif kind == "rows" and shape and shape[0]:
            rows = [choose.randrange(shape[0]) for _ in range(2)]
            target[rows] = target[rows[:1]] * 1.5
    return base


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_of_views_and_writes_agree_with_numpy(seed):
    shape = random.Random(seed).choice([(4,), (3, 4), (2, 3, 2), (1, 3)])
    values = np.random.default_rng(seed).normal(size=shape)
    x = ex.tensor(values.copy(), requires_grad=True)
    weights = np.random.default_rng(seed + 1).normal(size=shape)

    def run(a):
        return (_random_program(random.Random(seed), a, np) * weights).sum()

    y = _random_program(random.Random(seed), x, ex)
    np.testing.assert_allclose(y.detach().numpy(), _random_program(random.Random(seed), values, np))
    (g,) = ex.autograd.grad((y * ex.tensor(weights)).sum(), x, allow_unused=True)
    step = 1e-6
    for place in np.ndindex(shape):
        nudge = np.zeros(shape)
        nudge[place] = step
        numeric = (run(values + nudge) - run(values - nudge)) / (2 * step)
        assert (0.0 if g is None else g.numpy()[place]) == pytest.approx(numeric, abs=1e-6)
