"""Recurrent layers and encoders on a sample's own sequence: one call on all samples' sequences."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import extempo as ex
from extempo import nn

from .agreement import check

LENGTHS = [(3, 5, 2, 4), (6, 1, 5, 3)]


def sentences(lengths, width=8):
    rng = np.random.default_rng(0)
    return [ex.tensor(rng.normal(size=(n, width)), dtype=ex.float32) for n in lengths]


def encoder(**options):
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **options)


LAYERS = {
    "lstm": nn.LSTM(8, 4),
    "lstm of two layers both ways": nn.LSTM(8, 4, num_layers=2, bidirectional=True),
    "gru": nn.GRU(8, 4),
    "rnn": nn.RNN(8, 4, nonlinearity="relu"),
    "encoder layer": encoder(),
    "encoder layer, norm first": encoder(norm_first=True, batch_first=True),
    "encoder": nn.TransformerEncoder(encoder(), 2, norm=nn.LayerNorm(8)),
}


def names(batched):
    return [calls.kind.name for calls, _, _ in batched._notes.batches]


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_called_once_for_all_samples(name):
    layer = LAYERS[name]
    for lengths in LENGTHS:
        batched = check(lambda x: layer(x * 1.0), sentences(lengths), parameters=layer.parameters())
        assert names(batched).count(type(layer).__name__) == 1


def test_sequences_of_one_length_are_no_exception():
    layer = LAYERS["gru"]
    batched = check(lambda x: layer(x)[0][-1], sentences((3, 3, 3)), parameters=layer.parameters())
    assert names(batched) == ["GRU"]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: nn.functional.relu(LAYERS["lstm"](x, None)[0]),  # more than the sequence
        lambda x: LAYERS["gru"](x, ex.ones(1, 4))[0],
        lambda x: LAYERS["encoder layer"](x, is_causal=True, src_mask=ex.zeros(len(x), len(x))),
        lambda x: LAYERS["lstm"](x.unsqueeze(1))[0],  # a batch of its own
    ],
)
def test_calls_with_more_than_a_sequence_run_as_their_ops(fn):
    parameters = [p for layer in LAYERS.values() for p in layer.parameters()]
    used = [p for p in parameters if _is_used(fn, p)]
    batched = check(fn, sentences((3, 5, 2)), parameters=used)
    assert not {"LSTM", "GRU", "TransformerEncoderLayer"} & set(names(batched))


def _is_used(fn, p):
    return ex.autograd.grad(fn(sentences((3,))[0]).sum(), p, allow_unused=True)[0] is not None


def test_dropout_belongs_to_each_sample():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5)
    batched = check(lambda x: layer(x), sentences((3, 5, 2)), parameters=layer.parameters())
    assert "TransformerEncoderLayer" not in names(batched)
    layer.eval()
    batched = check(lambda x: layer(x), sentences((3, 5, 2)), parameters=layer.parameters())
    assert "TransformerEncoderLayer" in names(batched)


def test_hooks_inside_are_heard_for_each_sample():
    layer = encoder()
    ex.batch(layer)(sentences((3, 5)))
    heard = []
    layer.linear1.register_forward_hook(lambda module, args, result: heard.append(tuple(args[0].shape)))
    ex.batch(layer)(sentences((3, 5)))
    assert sorted(heard) == [(3, 8), (5, 8)]


def test_a_changed_layer_is_noticed():
    layer = nn.GRU(8, 4)
    samples = sentences((3, 5))
    before = ex.batch(layer)(samples)[0][0]
    layer.weight_ih_l0 = nn.Parameter(layer.weight_ih_l0.detach() * 0.0)
    after = ex.batch(layer)(samples)[0][0]
    assert not ex.allclose(before, after)
    assert ex.allclose(after, layer(samples[0])[0], atol=1e-6)
    check(lambda x: layer(x)[0], samples, parameters=layer.parameters())


def test_an_empty_sequence_and_a_wrong_width_say_what_they_say_alone():
    layer = nn.LSTM(8, 4)
    for wrong in (ex.ones(0, 8), ex.ones(3, 7)):
        try:
            alone = type(layer(wrong))
        except Exception as error:
            with pytest.raises(type(error)):
                ex.batch(layer)([ex.ones(2, 8), wrong])
        else:
            assert type(ex.batch(layer)([ex.ones(2, 8), wrong])[1]) is alone


def test_a_layer_is_not_kept_alive():
    layer = nn.LSTM(8, 4)
    gone = weakref.ref(layer)
    ex.batch(layer)(sentences((3, 5)))
    del layer
    gc.collect()
    assert gone() is None


def test_a_subclass_with_a_forward_of_its_own_runs_that():
    class Doubled(nn.GRU):
        def forward(self, x):
            return super().forward(x * 2.0)

    layer = Doubled(8, 4)
    check(lambda x: layer(x)[0], sentences((3, 5)), parameters=layer.parameters())
