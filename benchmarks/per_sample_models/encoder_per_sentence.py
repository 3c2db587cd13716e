"""A layer of a transformer's encoder on each sentence, and the mean of its rows."""

from __future__ import annotations

from typing import Any

from workload import cell

from .row import N_CLASSES, N_WORDS, Loss, Row, padded_sentences, sentence

N_DIM, N_HEADS, N_INNER, LONGEST = 64, 4, 128, 50


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(N_WORDS, N_DIM)
            self.position = nn.Embedding(LONGEST, N_DIM)
            self.encoder = nn.TransformerEncoderLayer(N_DIM, N_HEADS, N_INNER, dropout=0.0, batch_first=True)
            self.out = nn.Linear(N_DIM, N_CLASSES)

        def forward(self, words: Any, label: Any) -> Any:
            x = self.embedding(words) + self.position(lib.arange(len(words)))
            return F.cross_entropy(self.out(self.encoder(x).mean(0)), label)

    return Classifier()


def by_hand(lib: Any, model: Any) -> Loss:
    """The same layer on padded sentences, with a mask."""

    def loss_of(words: Any, lengths: Any, labels: Any) -> Any:
        places = lib.arange(words.shape[1])
        absent = places >= lengths[:, None]
        x = model.encoder(model.embedding(words) + model.position(places), src_key_padding_mask=absent)
        means = x.masked_fill(absent[:, :, None], 0.0).sum(1) / lengths[:, None]
        return lib.nn.functional.cross_entropy(model.out(means), labels)

    return loss_of


def arguments(lib: Any, model: Any) -> Loss:
    """Attention of all heads at once, in a cell that is a function of the rows and the weights."""
    F, layer = lib.nn.functional, model.encoder

    def attention(x: Any, wide: Any, wide_bias: Any, out: Any, out_bias: Any) -> Any:
        n = x.shape[0]
        q, k, v = F.linear(x, wide, wide_bias).view(n, 3, N_HEADS, N_DIM // N_HEADS).permute(1, 2, 0, 3)
        weights = F.softmax(q @ k.transpose(1, 2) / (N_DIM // N_HEADS) ** 0.5, dim=-1)
        return F.linear((weights @ v).transpose(0, 1).reshape(n, N_DIM), out, out_bias)

    def rest(x: Any, first: Any, first_bias: Any, second: Any, second_bias: Any) -> Any:
        return F.linear(F.relu(F.linear(x, first, first_bias)), second, second_bias)

    attention, rest = cell(lib, attention), cell(lib, rest)

    def loss_of(words: Any, label: Any) -> Any:
        x = F.embedding(words, model.embedding.weight) + model.position.weight[: len(words)]
        x = F.layer_norm(x + attention(x, *layer.self_attn.parameters()), (N_DIM,), *layer.norm1.parameters())
        weights = *layer.linear1.parameters(), *layer.linear2.parameters()
        x = F.layer_norm(x + rest(x, *weights), (N_DIM,), *layer.norm2.parameters())
        return F.cross_entropy(model.out(x.sum(0) / len(x)), label)

    return loss_of


def closures(lib: Any, model: Any) -> Loss:
    """Head by head and row by row, in lists of tensors; no cell."""
    F, layer, size = lib.nn.functional, model.encoder, N_DIM // N_HEADS
    wide, wide_bias, *_ = layer.self_attn.parameters()

    def loss_of(words: Any, label: Any) -> Any:
        rows = [model.embedding(word) + model.position.weight[t] for t, word in enumerate(words)]
        q, k, v = F.linear(lib.stack(rows), wide, wide_bias).chunk(3, dim=1)

        def attend(t: int) -> Any:
            heads = []
            for first in range(0, N_DIM, size):
                part = slice(first, first + size)
                weights = F.softmax(k[:, part] @ q[t, part] / size**0.5, dim=0)
                heads.append(weights @ v[:, part])
            return layer.self_attn.out_proj(lib.cat(heads))

        ends = []
        for t, row in enumerate(rows):
            x = layer.norm1(row + attend(t))
            ends.append(layer.norm2(x + layer.linear2(F.relu(layer.linear1(x)))))
        return F.cross_entropy(model.out(lib.stack(ends).mean(0)), label)

    return loss_of


def attributes(lib: Any, model: Any) -> Loss:
    """A batch of one sentence through scaled_dot_product_attention, in an object that is no module."""
    F, layer = lib.nn.functional, model.encoder

    class Encoder:
        def __init__(self) -> None:
            self.norms = layer.norm1, layer.norm2
            self.inner, self.outer, self.leave = layer.linear1, layer.linear2, layer.self_attn.out_proj
            self.wide, self.wide_bias = layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias

        def attend(self, x: Any) -> Any:
            parts = F.linear(x, self.wide, self.wide_bias).chunk(3, dim=-1)
            q, k, v = (part.view(1, -1, N_HEADS, N_DIM // N_HEADS).transpose(1, 2) for part in parts)
            return self.leave(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, -1, N_DIM))

        def encode(self, x: Any) -> Any:
            x = self.norms[0](x + self.attend(x))
            return self.norms[1](x + self.outer(F.relu(self.inner(x))))

    encoder = Encoder()

    def loss_of(words: Any, label: Any) -> Any:
        x = model.embedding(words.unsqueeze(0)) + model.position(lib.arange(words.shape[0]))
        return F.cross_entropy(model.out(encoder.encode(x).mean(1)), label.unsqueeze(0))

    return loss_of


STYLES = {"arguments": arguments, "closures": closures, "attributes": attributes}


ROWS = [Row("encoder_per_sentence", __doc__, model, sentence, (5, LONGEST), by_hand, padded_sentences, styles=STYLES)]
