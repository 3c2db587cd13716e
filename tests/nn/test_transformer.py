"""Transformer layers, stacks and model: PyTorch's numbers from the same weights, masks, custom parts, errors."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, ShapeError
from extempo.nn import functional as F

N_FEATURES, N_HEADS = 8, 2
SMALL = {"dim_feedforward": 10, "dropout": 0.0}


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def causal(n: int) -> np.ndarray:
    return np.triu(np.full((n, n), -np.inf), 1)


PADDING = np.array([[False] * 4, [False, False, True, True], [False, False, False, True]])


class Twins:
    """Both libraries' module, made by `make(nn, **options)`, with the same weights, called with the same arrays."""

    def __init__(self, make, **options: object) -> None:
        self.torch = pytest.importorskip("torch", reason="compares with PyTorch")
        self.torch.manual_seed(0)
        self.theirs = make(self.torch.nn, **options).double()
        self.ours = make(nn, **options).double()
        with self.torch.no_grad():
            for parameter in self.theirs.parameters():  # ones and zeros of norms and biases would hide mistakes
                parameter.normal_(std=0.5)
        assert list(self.ours.state_dict()) == list(self.theirs.state_dict())
        self.ours.load_state_dict(self.theirs.state_dict())

    def compare(self, *arrays: np.ndarray, **options: object) -> None:
        found = []
        for library, module in ((ex, self.ours), (self.torch, self.theirs)):
            inputs = [library.tensor(array, requires_grad=True) for array in arrays]
            given = {n: library.tensor(o) if isinstance(o, np.ndarray) else o for n, o in options.items()}
            result = module(*inputs, **given)
            module.zero_grad()
            (result**3).sum().backward()
            found.append([result, *(x.grad for x in [*inputs, *module.parameters()])])
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-7, atol=1e-9)


def encoder_layer(library, **options):
    return library.TransformerEncoderLayer(N_FEATURES, N_HEADS, **SMALL, **options)


def decoder_layer(library, **options):
    return library.TransformerDecoderLayer(N_FEATURES, N_HEADS, **SMALL, **options)


def encoder(library, **options):
    layer = encoder_layer(library, **options)
    return library.TransformerEncoder(layer, 2, library.LayerNorm(N_FEATURES), enable_nested_tensor=False)


def decoder(library, **options):
    return library.TransformerDecoder(decoder_layer(library, **options), 2, library.LayerNorm(N_FEATURES))


def model(library, **options):
    return library.Transformer(N_FEATURES, N_HEADS, 1, 2, **SMALL, **options)


OPTIONS = [
    {},
    {"norm_first": True},
    {"activation": "gelu"},
    {"batch_first": True},
    {"bias": False, "layer_norm_eps": 1e-3},
    {"norm_first": True, "activation": "gelu", "batch_first": True, "bias": False},
]

# PyTorch says with a warning that its own fast path cannot be taken.
quiet = pytest.mark.filterwarnings("ignore:enable_nested_tensor")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("make", [encoder_layer, encoder])
def test_encoders_give_pytorchs_numbers_and_gradients(make, options):
    twins = Twins(make, **options)
    mask_name = "src_mask" if make is encoder_layer else "mask"
    x = draw(3, 4, N_FEATURES) if options.get("batch_first") else draw(4, 3, N_FEATURES)
    twins.compare(x)
    twins.compare(draw(4, N_FEATURES))
    twins.compare(x, src_key_padding_mask=PADDING)
    twins.compare(x, **{mask_name: causal(4)}, is_causal=True)
    twins.compare(x, **{mask_name: causal(4) < 0}, src_key_padding_mask=PADDING)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("make", [decoder_layer, decoder])
def test_decoders_give_pytorchs_numbers_and_gradients(make, options):
    twins = Twins(make, **options)
    swap = (1, 0, 2) if options.get("batch_first") else (0, 1, 2)
    x, memory = draw(5, 3, N_FEATURES).transpose(swap), draw(4, 3, N_FEATURES, seed=1).transpose(swap)
    twins.compare(x, memory)
    twins.compare(x[0], memory[0])
    twins.compare(
        x,
        memory,
        tgt_mask=causal(5),
        memory_mask=draw(5, 4),
        memory_key_padding_mask=np.where(PADDING, -np.inf, 0.0),
        tgt_is_causal=True,
    )


@quiet
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_whole_model_gives_pytorchs_numbers_and_gradients(options):
    twins = Twins(model, **options)
    swap = (1, 0, 2) if options.get("batch_first") else (0, 1, 2)
    source, target = draw(4, 3, N_FEATURES).transpose(swap), draw(5, 3, N_FEATURES, seed=1).transpose(swap)
    twins.compare(source, target)
    twins.compare(source, target, tgt_mask=causal(5) < 0, src_key_padding_mask=PADDING, memory_key_padding_mask=PADDING)
    twins.compare(source[0], target[0], tgt_mask=causal(target.shape[1]), tgt_is_causal=True)


@pytest.mark.parametrize("kind", ["str", "function", "module"])
def test_an_activation_is_a_name_a_function_or_a_module(kind):
    given = {"str": "relu", "function": F.relu, "module": nn.ReLU()}[kind]
    ex.manual_seed(0)
    layer = encoder_layer(nn, activation=given)
    ex.manual_seed(0)
    assert ex.equal(layer(ex.ones(4, N_FEATURES)), encoder_layer(nn)(ex.ones(4, N_FEATURES)))
    assert copy.deepcopy(layer).activation(ex.tensor(-1.0)).item() == 0.0


def test_dropout_acts_only_in_training():
    layer = nn.TransformerEncoderLayer(N_FEATURES, N_HEADS, 10, dropout=0.5)
    x = ex.randn(4, 3, N_FEATURES)
    assert not ex.equal(layer(x), layer(x))
    layer.eval()
    assert ex.equal(layer(x), layer(x))


def test_what_is_masked_has_no_influence():
    module = encoder(nn, batch_first=True).eval()
    x = ex.tensor(draw(3, 4, N_FEATURES), dtype=ex.float32)
    changed = ex.where(ex.tensor(PADDING).unsqueeze(-1), 100.0, x)
    mask = ex.tensor(PADDING)
    before, after = (module(y, src_key_padding_mask=mask) for y in (x, changed))
    assert ex.equal(before[~mask], after[~mask])
    future = nn.Transformer.generate_square_subsequent_mask(4)
    first = module(x, mask=future)
    second = module(ex.cat([x[:, :3], x[:, 3:] + 1.0], 1), mask=future)
    assert ex.equal(first[:, :3], second[:, :3])
    assert not ex.equal(first[:, 3], second[:, 3])


def test_the_copies_of_a_layer_are_equal_and_separate():
    module = encoder(nn)
    first, second = module.layers
    assert ex.equal(first.linear1.weight, second.linear1.weight)
    with ex.no_grad():
        first.linear1.weight.zero_()
    assert second.linear1.weight.any()


@pytest.mark.parametrize("make", [encoder, decoder_layer, model])
def test_modules_pickle(make):
    module = make(nn)
    x = ex.ones(4, N_FEATURES)
    inputs = (x,) if make is encoder else (x, x)
    assert ex.equal(pickle.loads(pickle.dumps(module))(*inputs), module(*inputs))


def test_matrices_of_the_model_start_by_xavier():
    weight = model(nn).decoder.layers[0].linear1.weight
    assert 0.9 * (6 / 18) ** 0.5 < weight.abs().max().item() <= (6 / 18) ** 0.5


def test_custom_parts_take_the_place_of_the_stacks():
    class Double(nn.Module):
        def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
            return src * 2

    class Sum(nn.Module):
        def forward(self, tgt, memory, **masks):
            return tgt + memory.sum(0)

    module = nn.Transformer(N_FEATURES, N_HEADS, custom_encoder=Double(), custom_decoder=Sum())
    assert list(module.parameters()) == []
    result = module(ex.ones(4, N_FEATURES), ex.zeros(3, N_FEATURES))
    assert ex.equal(result, ex.full((3, N_FEATURES), 8.0))


def test_a_causal_hint_without_its_mask_is_an_error():
    for call in (
        lambda: encoder_layer(nn)(ex.zeros(4, N_FEATURES), is_causal=True),
        lambda: decoder(nn)(ex.zeros(4, N_FEATURES), ex.zeros(4, N_FEATURES), tgt_is_causal=True),
    ):
        with pytest.raises(ShapeError, match="pass the mask as well"):
            call()


def test_errors_name_the_sizes():
    module = model(nn)
    with pytest.raises(ShapeError, match=r"d_model=8 features, got \(4, 3, 8\) and \(4, 3, 6\)"):
        module(ex.zeros(4, 3, 8), ex.zeros(4, 3, 6))
    with pytest.raises(ShapeError, match=r"of one batch size.*got \(4, 3, 8\) and \(4, 2, 8\)"):
        module(ex.zeros(4, 3, 8), ex.zeros(4, 2, 8))
    with pytest.raises(ShapeError, match=r"got \(4, 3, 8\) and \(4, 8\)"):
        module(ex.zeros(4, 3, 8), ex.zeros(4, 8))
    with pytest.raises(ArgumentError, match="activation must be 'relu', 'gelu' or a function, got 'tanh'"):
        encoder_layer(nn, activation="tanh")
