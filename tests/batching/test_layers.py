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
        lambda x: LAYERS["encoder layer"](x, src_key_padding_mask=ex.arange(len(x)) > 1),
        lambda x: LAYERS["lstm"](x.unsqueeze(1))[0],  # a batch of its own
    ],
)
def test_calls_with_more_than_a_sequence_run_as_their_ops(fn):
    parameters = [p for layer in LAYERS.values() for p in layer.parameters()]
    used = [p for p in parameters if _is_used(fn, p)]
    batched = check(fn, sentences((3, 5, 2)), parameters=used)
    assert not {"LSTM", "GRU", "TransformerEncoderLayer"} & set(names(batched))


ATTENTION = nn.MultiheadAttention(8, 2)
DECODER = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0)
DECODERS = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, norm_first=True), 2, nn.LayerNorm(8))
TRANSFORMER = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0)
later = nn.Transformer.generate_square_subsequent_mask


@pytest.mark.parametrize(
    ("fn", "layer", "name"),
    [
        (lambda x, y: ATTENTION(x, x, x, need_weights=False)[0], ATTENTION, "MultiheadAttention"),
        (lambda x, y: ATTENTION(x, y, y, None, False)[0], ATTENTION, "MultiheadAttention"),
        (lambda x, y: ATTENTION(x, y, y * 2.0, need_weights=False)[0], ATTENTION, "MultiheadAttention"),
        (
            lambda x, y: ATTENTION(x, x, x, attn_mask=later(len(x)), is_causal=True, need_weights=False)[0],
            ATTENTION,
            "MultiheadAttention",
        ),
        (lambda x, y: LAYERS["encoder"](x, later(len(x))), LAYERS["encoder"], "TransformerEncoder"),
        (
            lambda x, y: LAYERS["encoder layer"](x, ex.ones(len(x), len(x), dtype=ex.bool).triu(1)),
            LAYERS["encoder layer"],
            "TransformerEncoderLayer",
        ),
        (lambda x, y: DECODER(x, y), DECODER, "TransformerDecoderLayer"),
        (lambda x, y: DECODER(x, y, tgt_mask=later(len(x)), tgt_is_causal=True), DECODER, "TransformerDecoderLayer"),
        (lambda x, y: DECODER(memory=y, tgt=x, tgt_mask=later(len(x))), DECODER, "TransformerDecoderLayer"),
        (lambda x, y: DECODERS(x, y, later(len(x))), DECODERS, "TransformerDecoder"),
        (lambda x, y: TRANSFORMER(x, y, tgt_mask=later(len(y))), TRANSFORMER, "TransformerDecoder"),
    ],
)
def test_attention_and_decoders_are_called_once_for_all_samples(fn, layer, name):
    for lengths in LENGTHS:
        samples = sentences(lengths), sentences([n + 2 for n in lengths])
        for _ in range(2):  # the second time, native code records the calls
            batched = check(lambda x, y: fn(x * 1.0, y * 1.0), *samples, parameters=layer.parameters())
            assert names(batched).count(name) == 1
            assert "scaled_dot_product_attention" not in names(batched)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: LAYERS["encoder layer"](x, is_causal=True, src_mask=ex.zeros(len(x), len(x))),
        lambda x: LAYERS["encoder layer"](x, ex.eye(len(x), dtype=ex.bool).logical_not()),
        lambda x: DECODER(x, x, tgt_mask=later(len(x)) if len(x) > 2 else ex.zeros(len(x), len(x))),
    ],
)
def test_other_masks_are_taken_as_they_are(fn):
    parameters = [*LAYERS["encoder layer"].parameters(), *DECODER.parameters()]
    used = [p for p in parameters if _is_used(fn, p)]
    check(lambda x: fn(x * 1.0), sentences((3, 5, 2)), parameters=used)


def test_attention_with_weights_runs_as_its_ops():
    batched = check(lambda x: list(ATTENTION(x, x, x)), sentences((3, 5, 2, 7)), parameters=ATTENTION.parameters())
    assert "softmax" in names(batched) or "MultiheadAttention" in names(batched)


def test_a_causal_flag_without_a_mask_is_the_error_of_the_layer():
    with pytest.raises(ex.errors.ExtempoError) as alone:
        LAYERS["encoder layer"](sentences((3,))[0], is_causal=True)
    with pytest.raises(type(alone.value)) as error:
        ex.batch(lambda x: LAYERS["encoder layer"](x, is_causal=True))(sentences((3, 5)))
    assert str(error.value) == str(alone.value)


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
