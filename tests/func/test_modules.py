"""functional_call and stack_module_state, on a stand-in that has the protocol of nn.Module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.errors import AutogradError, ShapeError
from extempo.func import functional_call, grad, stack_module_state, vmap


class Module:
    """Parameters, buffers and submodules in dicts, found as attributes."""

    training = True

    def __init__(self) -> None:
        self.__dict__.update(_parameters={}, _buffers={}, _modules={})

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[table]:
                return self.__dict__[table][name]
        raise AttributeError(name)

    def _named(self, table: str, prefix: str = "") -> Iterator[tuple[str, ex.Tensor]]:
        for name, tensor in self.__dict__[table].items():
            yield prefix + name, tensor
        for name, child in self._modules.items():
            yield from child._named(table, f"{prefix}{name}.")

    def named_parameters(self) -> Iterator[tuple[str, ex.Tensor]]:
        return self._named("_parameters")

    def named_buffers(self) -> Iterator[tuple[str, ex.Tensor]]:
        return self._named("_buffers")


class Linear(Module):
    def __init__(self, n_in: int, n_out: int, seed: int) -> None:
        super().__init__()
        rng = np.random.default_rng(seed)
        self._parameters["weight"] = ex.tensor(rng.normal(size=(n_out, n_in)), requires_grad=True)
        self._parameters["bias"] = ex.tensor(rng.normal(size=n_out), requires_grad=True)

    def __call__(self, x: ex.Tensor) -> ex.Tensor:
        return x @ self.weight.T + self.bias


class Net(Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._modules["first"] = Linear(3, 4, seed)
        self._modules["second"] = Linear(4, 2, seed + 100)
        self._buffers["scale"] = ex.tensor(2.0, dtype=ex.float64)

    def __call__(self, x: ex.Tensor, shift: float = 0.0) -> ex.Tensor:
        return self.second(self.first(x).tanh()) * self.scale + shift


def draw(*shape: int) -> ex.Tensor:
    return ex.tensor(np.random.default_rng(5).normal(size=shape))


def test_other_parameters_are_used_and_the_module_is_left_as_it_was() -> None:
    one, other, x = Net(0), Net(1), draw(5, 3)
    before = dict(one.named_parameters())
    got = functional_call(one, dict(other.named_parameters()), (x,), {"shift": 1.0})
    np.testing.assert_array_equal(got.detach().numpy(), other(x, shift=1.0).detach().numpy())
    assert all(p is before[name] for name, p in one.named_parameters())


def test_some_parameters_and_buffers_may_stay() -> None:
    net, x = Net(), draw(3)
    got = functional_call(net, [{"second.bias": ex.zeros(2, dtype=ex.float64)}, {"scale": ex.tensor(1.0)}], x)
    want = net(x) / 2 - net.second.bias
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy())


def test_the_module_is_restored_after_an_error() -> None:
    net = Net()
    weight = net.first.weight
    with pytest.raises(ShapeError):
        functional_call(net, {"first.weight": ex.ones(2, 2, dtype=ex.float64)}, draw(3))
    assert net.first.weight is weight


def test_per_sample_gradients_of_a_module() -> None:
    net, xs = Net(), draw(5, 3)
    params = {name: p.detach() for name, p in net.named_parameters()}

    def loss(params: dict[str, ex.Tensor], x: ex.Tensor) -> ex.Tensor:
        return functional_call(net, params, (x,)).pow(2).sum()

    got = vmap(grad(loss), in_dims=(None, 0))(params, xs)
    for name in params:
        want = ex.stack([grad(loss)(params, x)[name] for x in xs])
        np.testing.assert_allclose(got[name].numpy(), want.numpy())


def test_an_ensemble_runs_in_one_vmap() -> None:
    models, x = [Net(seed) for seed in range(3)], draw(5, 3)
    params, buffers = stack_module_state(models)
    assert params["first.weight"].shape == (3, 4, 3)
    assert params["first.weight"].requires_grad
    assert not buffers["scale"].requires_grad
    got = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(params, buffers, x)
    for i, model in enumerate(models):
        np.testing.assert_allclose(got[i].detach().numpy(), model(x).detach().numpy())
    got.sum().backward()
    assert params["second.bias"].grad.shape == (3, 2)


def test_tied_tensors_are_replaced_under_all_their_names() -> None:
    net, x = Net(), draw(4)
    twin = Linear(4, 2, 7)
    net._modules["twin"] = twin
    twin._parameters["weight"] = net.second._parameters["weight"]
    zeros = ex.zeros(2, 4, dtype=ex.float64)

    class Both(Module):
        def __init__(self) -> None:
            super().__init__()
            self._modules.update(a=net.second, b=twin)

        def __call__(self, x: ex.Tensor) -> ex.Tensor:
            return self.a(x) - self.a.bias + self.b(x) - self.b.bias

    both = Both()
    assert functional_call(both, {"a.weight": zeros}, x).abs().sum().item() == 0
    assert functional_call(both, {"a.weight": zeros}, x, tie_weights=False).abs().sum().item() > 0
    with pytest.raises(AutogradError, match="one tensor in the module"):
        functional_call(both, {"a.weight": zeros, "b.weight": zeros + 1}, x)


def test_wrong_names_are_refused() -> None:
    net, x = Net(), draw(3)
    with pytest.raises(AutogradError, match=r"no 'third.weight'"):
        functional_call(net, {"third.weight": ex.ones(1)}, x)
    with pytest.raises(AutogradError, match=r"no 'first.gain'"):
        functional_call(net, {"first.gain": ex.ones(1)}, x)
    with pytest.raises(AutogradError, match="strict=True"):
        functional_call(net, {"scale": ex.ones(())}, x, strict=True)
    with pytest.raises(AutogradError, match="more than one of the dicts"):
        functional_call(net, ({"scale": ex.ones(())}, {"scale": ex.ones(())}), x)


def test_models_of_an_ensemble_must_be_alike() -> None:
    with pytest.raises(ShapeError, match="at least one model"):
        stack_module_state([])
    with pytest.raises(ShapeError, match="of one class"):
        stack_module_state([Net(), Linear(1, 1, 0)])
    with pytest.raises(ShapeError, match="shapes"):
        stack_module_state([Linear(1, 1, 0), Linear(2, 1, 0)])
    quiet = Net()
    quiet.__dict__["training"] = False
    with pytest.raises(ShapeError, match="train mode"):
        stack_module_state([Net(), quiet])
