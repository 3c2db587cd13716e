"""MultiheadAttention: PyTorch's numbers for every option and mask, its names, errors that name sizes."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, ShapeError

N_FEATURES, N_HEADS = 6, 3


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def assert_close(ours: object, theirs: object) -> None:
    if theirs is None:
        assert ours is None
        return
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-9)


class Twins:
    """Both libraries' module with the same weights, called with the same arrays."""

    def __init__(self, **options: object) -> None:
        self.torch = pytest.importorskip("torch", reason="compares with PyTorch")
        self.torch.manual_seed(0)
        self.theirs = self.torch.nn.MultiheadAttention(N_FEATURES, N_HEADS, **options, dtype=self.torch.float64)
        self.ours = nn.MultiheadAttention(N_FEATURES, N_HEADS, **options, dtype=ex.float64)
        with self.torch.no_grad():
            for parameter in self.theirs.parameters():  # biases start at zero, which would hide them
                parameter.normal_()
        assert list(self.ours.state_dict()) == list(self.theirs.state_dict())
        self.ours.load_state_dict(self.theirs.state_dict())

    def compare(self, query: np.ndarray, key: np.ndarray | None = None, value: np.ndarray | None = None, **options):
        """Results, weights and gradients. Without key or value these are the very same tensor, as in self-attention."""
        found = []
        for library, module in ((ex, self.ours), (self.torch, self.theirs)):
            q = library.tensor(query, requires_grad=True)
            k = q if key is None else library.tensor(key, requires_grad=True)
            v = k if value is None else library.tensor(value, requires_grad=True)
            given = {n: library.tensor(o) if isinstance(o, np.ndarray) else o for n, o in options.items()}
            result, weights = module(q, k, v, **given)
            module.zero_grad()
            ((result**2).sum() + (0.0 if weights is None else (weights**3).sum())).backward()
            found.append([result, weights, q.grad, k.grad, v.grad, *(p.grad for p in module.parameters())])
        for ours, theirs in zip(*found, strict=True):
            assert_close(ours, theirs)


MASKS = {
    "none": {},
    "bool": {"attn_mask": np.triu(np.ones((4, 5), bool), 2)},
    "float": {"attn_mask": draw(4, 5, seed=7)},
    "per head": {"attn_mask": draw(2 * N_HEADS, 4, 5, seed=7)},
    "padding": {"key_padding_mask": np.array([[False] * 5, [False] * 3 + [True] * 2])},
    "both": {
        "attn_mask": np.triu(np.ones((4, 5), bool), 2),
        "key_padding_mask": np.array([[False] * 5, [False] * 3 + [True] * 2]),
    },
}
OPTIONS = [
    {},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"kdim": 4, "vdim": 7},
    {"kdim": 4, "vdim": 7, "add_bias_kv": True, "add_zero_attn": True, "bias": False},
]


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_and_mask_gives_pytorchs_numbers(options, mask, need_weights):
    twins = Twins(**options)
    n_keys, n_values = options.get("kdim", N_FEATURES), options.get("vdim", N_FEATURES)
    arrays = (draw(4, 2, N_FEATURES), draw(5, 2, n_keys, seed=1), draw(5, 2, n_values, seed=2))
    twins.compare(*arrays, **MASKS[mask], need_weights=need_weights)


@pytest.mark.parametrize("batch_first", [True, False])
def test_self_attention_and_shared_keys_give_pytorchs_numbers(batch_first):
    twins = Twins(batch_first=batch_first)
    twins.compare(draw(2, 4, N_FEATURES))
    batch = (2, 5) if batch_first else (5, 4)
    twins.compare(draw(2, 4, N_FEATURES), draw(*batch, N_FEATURES, seed=1))
    twins.compare(draw(2, 4, N_FEATURES), draw(*batch, N_FEATURES, seed=1), draw(*batch, N_FEATURES, seed=2))


@pytest.mark.parametrize("batch_first", [True, False])
def test_an_unbatched_sample_gives_pytorchs_numbers(batch_first):
    twins = Twins(batch_first=batch_first)
    twins.compare(draw(4, N_FEATURES), draw(5, N_FEATURES, seed=1))
    twins.compare(draw(4, N_FEATURES), draw(5, N_FEATURES, seed=1), key_padding_mask=np.arange(5) > 2)
    twins.compare(draw(4, N_FEATURES), draw(5, N_FEATURES, seed=1), attn_mask=draw(N_HEADS, 4, 5))


def test_weights_come_per_head_when_asked():
    twins = Twins(batch_first=True)
    twins.compare(draw(2, 4, N_FEATURES), average_attn_weights=False)
    x = ex.tensor(draw(2, 4, N_FEATURES))
    assert twins.ours(x, x, x, average_attn_weights=False)[1].shape == (2, N_HEADS, 4, 4)


@pytest.mark.parametrize("need_weights", [True, False])
def test_the_causal_hint_goes_with_the_causal_mask(need_weights):
    twins = Twins()
    future = np.triu(np.ones((4, 4), bool), 1)
    twins.compare(draw(4, 2, N_FEATURES), attn_mask=future, is_causal=True, need_weights=need_weights)
    x = ex.zeros(4, N_FEATURES, dtype=ex.float64)
    with pytest.raises(ShapeError, match="pass the mask as well"):
        twins.ours(x, x, x, is_causal=True)


def test_dropout_drops_weights_only_in_training():
    ex.manual_seed(0)
    module = nn.MultiheadAttention(N_FEATURES, N_HEADS, dropout=0.5)
    x = ex.randn(8, N_FEATURES)
    weights = module(x, x, x, average_attn_weights=False)[1]
    assert (weights == 0).any()
    assert not ex.equal(module(x, x, x, need_weights=False)[0], module(x, x, x, need_weights=False)[0])
    module.eval()
    assert (module(x, x, x)[1].sum(-1) - 1).abs().max().item() < 1e-6


def test_parameters_start_as_in_pytorch():
    ex.manual_seed(0)
    module = nn.MultiheadAttention(64, 4, add_bias_kv=True)
    bound = (6 / (64 * 4)) ** 0.5
    assert 0.9 * bound < module.in_proj_weight.abs().max().item() <= bound
    assert not module.in_proj_bias.any()
    assert not module.out_proj.bias.any()
    assert 0.9 / 8 < module.out_proj.weight.abs().max().item() <= 1 / 8
    assert module.bias_k.std().item() == pytest.approx((2 / 128) ** 0.5, rel=0.4)
    assert module.q_proj_weight is None
    separate = nn.MultiheadAttention(64, 4, kdim=32)
    assert separate.in_proj_weight is None
    assert [tuple(separate.get_parameter(f"{n}_proj_weight").shape) for n in "qkv"] == [(64, 64), (64, 32), (64, 64)]


def test_a_copy_has_weights_of_its_own():
    module = nn.MultiheadAttention(N_FEATURES, N_HEADS)
    twin = copy.deepcopy(module)
    x = ex.randn(3, N_FEATURES)
    assert ex.equal(module(x, x, x)[0], twin(x, x, x)[0])
    with ex.no_grad():
        twin.out_proj.bias += 1.0
    assert not module.out_proj.bias.any()


def test_errors_name_the_sizes():
    with pytest.raises(ArgumentError, match="embed_dim=6 and num_heads=4"):
        nn.MultiheadAttention(6, 4)
    with pytest.raises(ArgumentError, match="embed_dim=6 and num_heads=0"):
        nn.MultiheadAttention(6, 0)
    module = nn.MultiheadAttention(6, 3, kdim=4, batch_first=True)
    q, k = ex.zeros(2, 5, 6), ex.zeros(2, 5, 4)
    with pytest.raises(
        ShapeError, match=r"key must be \(batch, length, features\).* 4 features, got shape \(2, 5, 6\)"
    ):
        module(q, q, q)
    with pytest.raises(ShapeError, match=r"batches of one size, got \[2, 3, 2\] in dimension 0 \(batch_first=True\)"):
        module(q, ex.zeros(3, 5, 4), q)
    with pytest.raises(ShapeError, match=r"attn_mask must be \(5, 5\) or \(6, 5, 5\), got \(4, 5\)"):
        module(q, k, q, attn_mask=ex.zeros(4, 5))
    with pytest.raises(ShapeError, match=r"value must be .* got shape \(5, 6\)"):
        module(q, k, q[0])
