"""Dual tensors: tangents are PyTorch's, under `no_grad` and after writes as well, and wrong use is explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.autograd import forward_ad
from extempo.autograd.forward_ad import dual_level, enter_dual_level, exit_dual_level, make_dual, unpack_dual
from extempo.errors import AutogradError, DtypeError, LeafWriteError, ShapeError

X, T = [0.5, -1.0, 2.0], [1.0, 10.0, -3.0]


def tangent_of(f: Any) -> list[float]:
    """Of f at X in the direction T."""
    with dual_level():
        return unpack_dual(f(make_dual(ex.tensor(X), ex.tensor(T)))).tangent.tolist()


class Cube(ex.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: ex.Tensor) -> ex.Tensor:
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


def test_a_dual_tensor_is_its_primal_and_tangent() -> None:
    x, t = ex.tensor(X), ex.tensor(T)
    with dual_level():
        dual = make_dual(x, t)
        assert dual.data_ptr() == x.data_ptr()
        primal, tangent = unpack_dual(dual)
    assert (primal.tolist(), tangent.tolist()) == (X, T)
    assert not primal.requires_grad
    assert not tangent.requires_grad


def test_several_dual_tensors_add_up() -> None:
    with dual_level():
        a, b = make_dual(ex.tensor(2.0), ex.tensor(1.0)), make_dual(ex.tensor(5.0), ex.tensor(10.0))
        assert unpack_dual(a * b).tangent.item() == 5.0 + 20.0
        assert unpack_dual(a * a).tangent.item() == 4.0


def test_what_depends_on_no_dual_tensor_has_no_tangent() -> None:
    x = ex.tensor(X)
    with dual_level():
        dual = make_dual(x, ex.tensor(T))
        for y in (x, x * 2, dual.detach() * 2, dual > 0, dual.argmax(), ex.tensor(1.0, requires_grad=True) * 2):
            assert unpack_dual(y).tangent is None
        assert unpack_dual(dual.floor()).tangent.tolist() == [0.0, 0.0, 0.0]


def test_values_that_are_not_finite_do_not_spoil_a_tangent() -> None:
    with dual_level():
        dual = make_dual(ex.tensor([float("inf"), 1.0]), ex.tensor([1.0, 1.0]))
        assert unpack_dual(dual * 2).tangent.tolist() == [2.0, 2.0]


def test_tangents_go_on_under_no_grad() -> None:
    def scaled(x: ex.Tensor) -> ex.Tensor:
        with ex.no_grad():
            scale = x.max()
            assert not ex.is_grad_enabled()
        return x * scale

    assert tangent_of(scaled) == [2 * 1 - 3 * 0.5, 2 * 10 + 3 * 1.0, 2 * 2 * -3.0]


@pytest.mark.parametrize("block", [ex.no_grad, ex.inference_mode])
def test_a_level_inside_no_grad_has_tangents(block: Any) -> None:
    weight = ex.tensor(X, requires_grad=True)
    with block(), dual_level():
        out = make_dual(ex.tensor(X), ex.tensor(T)) * weight
        tangent = unpack_dual(out).tangent
        assert not (weight * 2).requires_grad
    assert tangent.tolist() == [0.5, -10.0, -6.0]
    assert not tangent.requires_grad


def test_writes_in_place_carry_tangents() -> None:
    def written(x: ex.Tensor) -> ex.Tensor:
        y = ex.zeros(3)
        y[1:] = x[:2]
        return y.mul_(x)

    def written_without_grad(x: ex.Tensor) -> ex.Tensor:
        with ex.no_grad():
            return written(x)

    assert tangent_of(written) == tangent_of(written_without_grad) == [0.0, 4.0, 23.0]
    assert tangent_of(lambda x: x.mul_(2)) == [2.0, 20.0, -6.0]


def test_parameters_are_written_without_grad_inside_a_level() -> None:
    weight = ex.tensor(1.0, requires_grad=True)
    with dual_level():
        dual = make_dual(ex.tensor(1.0), ex.tensor(1.0))
        with ex.no_grad():
            weight.add_(1)
        with ex.no_grad(), pytest.raises(LeafWriteError):
            weight.add_(dual)
    assert weight.item() == 2.0
    assert weight.is_leaf


def test_functions_with_gradients_of_their_own_have_tangents() -> None:
    def without_grad(x: ex.Tensor) -> ex.Tensor:
        with ex.no_grad():
            assert not Cube.apply(ex.tensor(X, requires_grad=True)).requires_grad
            return Cube.apply(x)

    assert tangent_of(Cube.apply) == tangent_of(without_grad) == [0.75, 30.0, -36.0]


def test_tangents_can_be_differentiated() -> None:
    weight = ex.tensor([2.0], requires_grad=True)
    with dual_level():
        dual = make_dual(weight, ex.tensor([3.0]))
        tangent = unpack_dual(dual**3).tangent
    assert tangent.tolist() == [3 * 4.0 * 3]
    tangent.sum().backward()
    assert weight.grad.tolist() == [6 * 2.0 * 3]


def test_compiled_functions_and_vmap_take_dual_tensors() -> None:
    assert tangent_of(ex.compile(ex.square)) == tangent_of(ex.vmap(ex.square)) == [1.0, -20.0, -12.0]

    @ex.compile
    def inside(x: ex.Tensor, t: ex.Tensor) -> ex.Tensor:
        y = x * 2
        with dual_level():
            tangent = unpack_dual(make_dual(y, t) ** 2).tangent
        return tangent + y

    for _ in range(3):
        assert inside(ex.tensor(3.0), ex.tensor(1.0)).item() == 18.0


def test_a_level_ends_and_leaves_the_context_as_it_was() -> None:
    level = enter_dual_level()
    with ex.no_grad():
        dual = make_dual(ex.tensor(2.0), ex.tensor(1.0), level=level)
    assert unpack_dual(dual * 3, level=level).tangent.item() == 3.0
    exit_dual_level(level=level)
    assert ex.is_grad_enabled()
    assert unpack_dual(dual).tangent is None
    with dual_level() as number:
        assert number == level
    with ex.no_grad():
        enter_dual_level()
        exit_dual_level()
        assert not ex.is_grad_enabled()
        assert not (ex.tensor(2.0, requires_grad=True) * 2).requires_grad


def test_a_function_can_have_a_level_around_each_call() -> None:
    @dual_level()
    def doubled(x: ex.Tensor) -> ex.Tensor:
        return unpack_dual(make_dual(x, x) * 2).tangent

    assert [doubled(ex.tensor(v)).item() for v in (1.0, 2.0)] == [2.0, 4.0]


def test_wrong_use_is_explained() -> None:
    x = ex.tensor(X)
    with pytest.raises(AutogradError, match="with dual_level"):
        make_dual(x, x)
    with pytest.raises(AutogradError, match="once for each"):
        exit_dual_level()
    with dual_level():
        with pytest.raises(AutogradError, match=r"nest ex\.func\.jvp"):
            enter_dual_level()
        with pytest.raises(DtypeError, match=r"floating tangent, got .*int64; use x\.float"):
            make_dual(x, ex.tensor([1, 2, 3]))
        with pytest.raises(ShapeError, match=r"shape \(2,\), the primal .* \(3,\)"):
            make_dual(x, ex.ones(2))
        with pytest.raises(ShapeError, match="float64"):
            make_dual(x, x.double())
        with pytest.raises(AutogradError, match="has a tangent"):
            make_dual(make_dual(x, x) * 2, x)
    assert forward_ad.unpack_dual(x) == (x, None)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # PyTorch's own rules use it
def test_tangents_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch; install the conformance extra")
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(2, 4, 4)).astype(np.float32)

    def network(lib: Any, h: Any) -> Any:
        h = lib.nn.functional.layer_norm(h @ h.T, (4,))
        h = lib.softmax(h, -1) + lib.cumsum(lib.tanh(h), 0)
        with lib.no_grad():
            h = h / h.std()
        h = lib.cat([h, lib.nn.functional.gelu(h)], 1).amax(1)
        return lib.stack([h.logsumexp(0), h.prod(), h.var()])

    found = []
    for lib, from_numpy in ((ex, ex.from_numpy), (torch, torch.from_numpy)):
        ad = lib.autograd.forward_ad
        with ad.dual_level():
            y = network(lib, ad.make_dual(from_numpy(x.copy()), from_numpy(t)))
            found.append([part.detach().numpy() for part in ad.unpack_dual(y)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5)
