"""What happens to per-sample tensors inside a vmap: writes, reads, draws, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.errors import AutogradError, DtypeError, OverwrittenError, ShapeError
from extempo.func import grad, hessian, vmap

from .loops import assert_close, draw, loop


def writing(x: ex.Tensor) -> ex.Tensor:
    y = x * 2
    y[0] = x[1]
    y.mul_(x)
    tail = y[2:]
    tail += 1
    y[1:3].exp_()
    return (y * tail.sum()).sum()


def test_backward_inside_fills_the_gradients_of_leaves_made_inside() -> None:
    def fn(x: ex.Tensor) -> ex.Tensor:
        v = x.detach().clone().requires_grad_()
        (v**3).sum().backward()
        return v.grad

    xs = draw(3, 2)
    assert_close(vmap(fn)(xs), 3 * xs**2)


@pytest.mark.parametrize(
    "change",
    [
        lambda y, w: y.addcmul_(y, w),
        lambda y, w: y.addcdiv_(w, y + 2.0),
        lambda y, w: y[0].addcmul_(y[1], y[0]),
        lambda y, w: y.addmm_(y, y),
    ],
)
def test_in_place_methods_of_several_ops_may_read_what_they_write(change: Any) -> None:
    x = ex.randn(2, 3, 3, generator=ex.Generator().manual_seed(0))
    w = ex.ones(3, 3).requires_grad_()

    def changed(x: ex.Tensor) -> ex.Tensor:
        y = x * w
        change(y, w)
        return y

    mapped = ex.vmap(changed)(x)
    (found,) = ex.autograd.grad(mapped.sum(), w)
    one_by_one = ex.stack([changed(row) for row in x])
    (expected,) = ex.autograd.grad(one_by_one.sum(), w)
    assert ex.allclose(mapped, one_by_one)
    assert ex.allclose(found, expected)


def test_in_place_writes_to_per_sample_tensors() -> None:
    xs = draw(3, 4)
    assert_close(vmap(writing)(xs), loop(writing, xs))
    assert_close(vmap(grad(writing))(xs), loop(grad(writing), xs))
    assert_close(grad(lambda xs: vmap(writing)(xs).sum())(xs), loop(grad(writing), xs))
    assert_close(vmap(hessian(writing))(xs), loop(hessian(writing), xs))
    nested = vmap(vmap(grad(writing)))(xs.reshape(1, 3, 4))
    assert_close(nested[0], loop(grad(writing), xs))


def test_a_write_reaches_the_mapped_argument_as_in_pytorch() -> None:
    xs = draw(3, 4)
    before = xs.clone()
    vmap(lambda x: x.add_(1))(xs)
    assert_close(xs, before + 1)
    vmap(lambda x: x.mul_(2), in_dims=1)(xs)
    assert_close(xs, (before + 1) * 2)


def test_a_write_of_per_sample_values_into_a_shared_tensor_is_refused() -> None:
    for fn in (lambda x: ex.zeros(4).add_(x), lambda x: ex.zeros(4).copy_(x), lambda x: ex.zeros(4).fill_(x[0])):
        with pytest.raises(AutogradError, match="values that differ between samples cannot be written"):
            vmap(fn)(draw(3, 4))


def test_a_write_that_destroys_what_backward_needs_is_noticed() -> None:
    def fn(x: ex.Tensor) -> ex.Tensor:
        y = x.sin()
        z = y * y
        y.add_(1)
        return z.sum()

    with pytest.raises(OverwrittenError, match="inside vmap"):
        vmap(grad(fn))(draw(3, 4))


def test_reading_a_value_says_what_to_do() -> None:
    for fn in (lambda x: x if x.sum() > 0 else -x, lambda x: x * x.sum().item(), lambda x: ex.tensor(x.tolist())):
        with pytest.raises(AutogradError, match=r"vmap: a value was read.*ex.where"):
            vmap(fn)(draw(3, 4))


def test_a_tensor_that_leaves_vmap_by_the_side_says_so() -> None:
    kept: list[Any] = []
    vmap(lambda x: kept.append(x) or x)(draw(3, 4))
    with pytest.raises(AutogradError, match="a vmap that has ended"):
        kept[0].sum().item()


def test_random_draws_must_be_asked_for() -> None:
    xs = draw(4, 3)

    def fn(x: ex.Tensor) -> ex.Tensor:
        return x * 0 + ex.rand(3, dtype=ex.float64)

    with pytest.raises(AutogradError, match="randomness='different'"):
        vmap(fn)(xs)
    different = vmap(fn, randomness="different")(xs).numpy()
    assert len(np.unique(different)) == 12
    for chunk_size in (None, 3):
        same = vmap(fn, randomness="same", chunk_size=chunk_size)(xs).numpy()
        np.testing.assert_array_equal(same, np.broadcast_to(same[0], (4, 3)))
    orders = vmap(lambda x: ex.randperm(20), randomness="different")(xs).numpy()
    assert len({tuple(o) for o in orders}) == 4
    np.testing.assert_array_equal(np.sort(orders), np.broadcast_to(np.arange(20), (4, 20)))
    with pytest.raises(DtypeError, match="randomness must be"):
        vmap(fn, randomness="often")


def test_draws_from_per_sample_probabilities() -> None:
    p = ex.full((200,), 0.5)
    ps = ex.stack([p, p])
    a, b = vmap(ex.bernoulli, randomness="different")(ps).numpy()
    assert (a != b).any()
    a, b = vmap(ex.bernoulli, randomness="same")(ps).numpy()
    np.testing.assert_array_equal(a, b)
    assert vmap(lambda w: ex.multinomial(w, 3), randomness="different")(ps).shape == (2, 3)


def test_shape_errors_speak_of_one_sample() -> None:
    with pytest.raises(ShapeError, match=r"add: shapes \(4,\) and \(3,\)"):
        vmap(lambda x: x + ex.ones(3))(ex.ones(5, 4))
