"""Pruning by masks, beside PyTorch's."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, DtypeError, IndexRangeError, ShapeError
from extempo.nn.utils import prune


def layer_of(lib, seed=0, shape=(5, 6, 3)):
    layer = lib.nn.Conv1d(6, 5, 3)
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    layer.weight = lib.nn.Parameter(lib.tensor(values))
    layer.bias = lib.nn.Parameter(lib.tensor(values[:, 0, 0]))
    return layer


CHAINS = {
    "l1": lambda p, m, lib: p.l1_unstructured(m, "weight", amount=0.3),
    "l1 twice": lambda p, m, lib: p.l1_unstructured(p.l1_unstructured(m, "weight", 0.3), "weight", 11),
    "scores": lambda p, m, lib: p.l1_unstructured(m, "weight", 7, importance_scores=m.weight.detach() ** 2 - 1.0),
    "ln": lambda p, m, lib: p.ln_structured(m, "weight", amount=2, n=2, dim=0),
    "ln of last": lambda p, m, lib: p.ln_structured(m, "weight", amount=0.5, n=1, dim=-1),
    "ln inf": lambda p, m, lib: p.ln_structured(m, "weight", amount=0.5, n=float("inf"), dim=1),
    "ln then l1": lambda p, m, lib: p.l1_unstructured(p.ln_structured(m, "weight", 2, 2, 0), "weight", 0.4),
    "l1 then ln": lambda p, m, lib: p.ln_structured(p.l1_unstructured(m, "weight", 0.6), "weight", 0.5, 2, 1),
    "three": lambda p, m, lib: p.ln_structured(
        p.ln_structured(p.l1_unstructured(m, "weight", 0.2), "weight", 1, 2, 0), "weight", 1, 2, 0
    ),
    "mask": lambda p, m, lib: p.custom_from_mask(m, "bias", lib.tensor([1, 0, 1, 0, 1])),
    "nothing": lambda p, m, lib: p.identity(p.l1_unstructured(m, "weight", 0), "bias"),
}


@pytest.mark.conformance
@pytest.mark.parametrize("chain", CHAINS)
def test_masks_values_and_states_are_pytorchs(chain):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    theirs_of = pytest.importorskip("torch.nn.utils.prune")
    ours, theirs = layer_of(ex), layer_of(torch)
    CHAINS[chain](prune, ours, ex)
    CHAINS[chain](theirs_of, theirs, torch)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for key, value in ours.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), theirs.state_dict()[key].numpy())
    x = np.random.default_rng(1).normal(size=(2, 6, 8)).astype(np.float32)
    a, b = ours(ex.tensor(x)), theirs(torch.tensor(x))
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-5)
    a.sum().backward()
    b.sum().backward()
    for (name, p), (_, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-4, err_msg=name)


@pytest.mark.conformance
def test_global_pruning_chooses_as_pytorch_does():
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    theirs_of = pytest.importorskip("torch.nn.utils.prune")
    masks = []
    for lib, pruning in ((ex, prune), (torch, theirs_of)):
        layers = [layer_of(lib, seed) for seed in (0, 1)]
        pairs = [(layers[0], "weight"), (layers[1], "weight"), (layers[1], "bias")]
        pruning.global_unstructured(pairs, pruning.L1Unstructured, amount=0.3)
        pruning.global_unstructured(pairs, pruning.L1Unstructured, {pairs[0]: layers[0].weight.detach() * 3}, amount=40)
        masks.append([getattr(module, name + "_mask").numpy() for module, name in pairs])
    for a, b in zip(*masks, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("amount", "zeros"), [(0.25, 4), (3, 3), (0, 0), (1.0, 16)])
def test_random_pruning_prunes_that_many(amount, zeros):
    layer = prune.random_unstructured(nn.Linear(4, 4), "weight", amount)
    assert int((layer.weight_mask == 0).sum()) == zeros
    if amount != 1.0:
        rows = prune.random_structured(nn.Linear(4, 4), "weight", amount, dim=0).weight_mask.sum(1)
        assert int((rows == 0).sum()) == zeros // (4 if isinstance(amount, float) else 1)


def test_training_moves_what_is_left_only_and_removal_keeps_the_parameter():
    layer = nn.Linear(3, 3)
    weight = layer.weight
    prune.l1_unstructured(layer, "weight", 4)
    optimizer = ex.optim.SGD(layer.parameters(), lr=0.1)
    layer(ex.ones(2, 3)).square().sum().backward()
    optimizer.step()
    _ = layer(ex.ones(1, 3))
    assert int((layer.weight == 0).sum()) == 4
    assert prune.is_pruned(nn.Sequential(layer))
    prune.remove(layer, "weight")
    assert layer.weight is weight
    assert int((layer.weight == 0).sum()) == 4
    assert not prune.is_pruned(layer)
    with pytest.raises(ArgumentError, match="not pruned"):
        prune.remove(layer, "weight")


def test_a_pruned_model_is_copied_and_its_state_loaded():
    layer = prune.l1_unstructured(nn.Linear(3, 3), "weight", 4)
    twin = copy.deepcopy(layer)
    fresh = prune.identity(nn.Linear(3, 3), "weight")
    fresh.load_state_dict(layer.state_dict())
    x = ex.ones(1, 3)
    assert ex.equal(twin(x), layer(x))
    assert ex.equal(fresh(x), layer(x))


def test_a_tensor_is_pruned_without_a_module():
    t = ex.tensor([1.0, -3.0, 2.0])
    assert prune.L1Unstructured(amount=1).prune(t).tolist() == [0.0, -3.0, 2.0]
    assert prune.L1Unstructured(1).prune(t, importance_scores=ex.tensor([5.0, 1.0, 2.0])).tolist() == [1.0, 0.0, 2.0]


def test_a_container_holds_methods_of_one_tensor():
    layer = prune.l1_unstructured(prune.l1_unstructured(nn.Linear(3, 3), "weight", 1), "weight", 1)
    ((_, container),) = prune._prunings(layer)
    assert isinstance(container, prune.PruningContainer)
    assert len(container) == 2
    assert [type(method) for method in container] == [prune.L1Unstructured] * 2
    other = prune.L1Unstructured(1)
    other._tensor_name = "bias"
    with pytest.raises(ArgumentError, match="'bias'"):
        container.add_pruning_method(other)
    with pytest.raises(DtypeError, match="BasePruningMethod"):
        container.add_pruning_method(None)


def test_what_cannot_be_pruned_is_named_and_nothing_changes():
    layer = nn.Linear(3, 3)
    for attempt, kind, message in [
        (lambda: prune.l1_unstructured(layer, "weight", -1), ArgumentError, "fraction between"),
        (lambda: prune.l1_unstructured(layer, "weight", 1.5), ArgumentError, "fraction between"),
        (lambda: prune.l1_unstructured(layer, "weight", 10), ArgumentError, "more than the 9"),
        (lambda: prune.l1_unstructured(layer, "weight", "all"), DtypeError, "int or a float"),
        (lambda: prune.ln_structured(layer, "bias", 1, 2, 0), ShapeError, "l1_unstructured"),
        (lambda: prune.ln_structured(layer, "weight", 1, 2, 2), IndexRangeError, "dim 2"),
        (lambda: prune.custom_from_mask(layer, "bias", ex.ones(2)), ShapeError, "the mask"),
        (
            lambda: prune.l1_unstructured(layer, "bias", 1, importance_scores=ex.ones(2)),
            ShapeError,
            "importance_scores",
        ),
        (
            lambda: prune.global_unstructured([(layer, "weight")], prune.LnStructured, amount=1, n=2),
            DtypeError,
            "not unstructured",
        ),
    ]:
        with pytest.raises(kind, match=message):
            attempt()
        assert sorted(layer.state_dict()) == ["bias", "weight"]
