"""A seed and a number in, a program for one sample out, and the samples of its calls, each with sizes of its own.

A program is a function `sample(x, y, index, words, parts, number)`: x (n, width) and y (m, width) have rows in numbers
of the sample's own, index has numbers of rows of x, words a word for each, parts are lists of rows, and number is a
number. It sees what all samples share as a global, s: weights, layers, cells. It returns a list of tensors, of any
shapes.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from per_sample_models.row import filled
from workload import cell

WIDTHS, SAMPLES, N_WORDS, INDENT = (4, 8, 16, 32), (4, 8, 16, 32), 20, "    "
ARGUMENTS = ("x", "y", "index", "words", "parts", "number")

# {a}, {b}: rows, as many of both; {p}: any rows; {q}: a number for each row of {a}; {v}, {z}: vectors; {c}: a number
# in the text; {k}: a small whole one; {d}, {h}: the width and half of it. Where index or words stand, {a} is like x.
SAME = """
lib.tanh({a})
lib.sigmoid({a}) * {b}
{a} * {c} + {b}
F.relu({a} - {b})
F.gelu({a})
lib.maximum({a}, {b})
lib.where({a} > {b}, {a}, {c} * {b})
{a}.clamp(-1.0, {c})
{a} * (1.0 / (1.0 + {a}.shape[0]))
{a} * number + {b}
s.linear({a})
F.linear({a}, s.w, s.v)
lib.tanh({a} @ s.w)
lib.tanh({a} @ s.w + {v})
{a} + {v}
{a} * lib.tanh({v})
{a} @ ({p}.T @ {p}) * 0.1
lib.tanh({a} @ lib.outer({v}, {z}))
s.norm({a})
F.layer_norm({a}, ({d},), s.u, s.v)
F.softmax({a}, -1)
F.log_softmax({a}, dim=1) * 0.2
F.softmax({a}, 0)
F.log_softmax({a}, 0) * 0.2
{a} - {a}.mean(0)
{a} - {a}.amax(0, keepdim=True)
{a} / ({a}.abs().amax(1, keepdim=True) + 1.0)
{a} * {q}[:, None]
{a}.masked_fill(({q} > 0)[:, None], {c})
lib.where(({q} > {c}).unsqueeze(1), {a}, {b})
lib.cumsum({a}, 0) * 0.1
lib.flip({a}, [0])
lib.sort({a}, dim=0)[0]
lib.cat([{a}[1:], {a}[:1]])
lib.cat([{a}[:, {h}:], {b}[:, :{h}]], 1)
lib.stack([{a}, {b}]).sum(0)
lib.stack([row * {c} for row in {a}])
lib.stack([lib.tanh({a}[t]) for t in range(len({a}))])
lib.cat([part * 0.5 for part in {a}.split(2)])
{a}.T.contiguous().T
{a}.unsqueeze(0).expand(2, -1, -1).mean(0)
{a} + s.embedding(words)
{a} + F.embedding(words, s.table)
{a} + s.table[words]
{a}[index][:1].sum(0) + {a}
lib.zeros_like({a}).index_add(0, index, {a}[index])
lib.zeros(len({a}), {d}, dtype={a}.dtype).index_add_(0, index, {a}.index_select(0, index))
{a}.scatter_add(0, index[:, None].expand(-1, {d}), {a}[index] * 0.5)
{a}.gather(1, {a}.argmax(1, keepdim=True).expand(-1, {d}))
{a} * F.one_hot(words % {d}, {d}).to({a}.dtype)
F.softmax({a} @ {p}.T, -1) @ {p}
F.softmax({a} @ {b}.T + 0.1 * lib.ones(len({a}), len({a}), dtype={a}.dtype).tril(), dim=1) @ {b}
F.scaled_dot_product_attention({a}, {p}, {p})
F.scaled_dot_product_attention({a}[None], {b}[None], {b}[None])[0]
s.attention({a}, {p}, {p})[0]
s.attention({a}, {b}, {b}, need_weights=False)[0]
s.layer({a})
s.lstm({a})[0]
s.gru({a})[0]
s.gru({a}[:, None])[0][:, 0]
s.conv({a}.T).T
F.conv1d({a}.T[None], s.kernel, padding=1)[0].T
F.max_pool1d({a}.T[None], 3, 1, 1)[0].T
F.avg_pool1d({a}.T, 3, 1, 1).T
s.gate({a}, {b})
s.turned({a}, s.w)
F.dropout({a}, 0.2)
{a} + 0.01 * lib.rand_like({a})
{a} + {c} * lib.randn({d}, dtype={a}.dtype)
{a}.detach() * {c} + {b}
{a}.clone().mul_({c})
lib.zeros_like({a}).copy_({a})
lib.einsum("nd,de->ne", {a}, s.w)
lib.einsum("nd,md->nm", {a}, {p}) @ {p} * 0.1
{a}.view(len({a}), 2, {h}).transpose(1, 2).reshape(len({a}), {d})
{a}.reshape(-1).view(-1, {d}) * {c}
lib.roll({a}, 1, 0)
lib.cummax({a}, 0)[0]
F.normalize({a} + 1.0, dim=0)
F.pad({a}, (0, 0, 1, 0))[:-1]
lib.bmm({a}[:, None], s.w.expand(len({a}), -1, -1))[:, 0]
{a}.index_copy(0, index[:1], {a}[index][:1] * {c})
{a}.index_fill(0, index[:2], {c})
lib.addmm({b}, {a}, s.w)
{a} * ({b} > 0) + ~({b} > {c}) * 0.1
{a} * (lib.arange(len({a})) < {k})[:, None]
lib.stack(lib.batch(lambda row: lib.tanh(row @ s.w))({a}))
lib.cell(lambda rows, weight: lib.tanh(rows @ weight) * {c})({a}, s.w)
(s.w @ {a}.T).T
s.layer({a}, s.later(len({a})))
s.decoder({a}, {p})
s.decoder({a}, {p}, tgt_mask=s.later(len({a})))
s.attention({a}, {b}, {b}, attn_mask=s.later(len({a})), need_weights=False, is_causal=True)[0]
F.scaled_dot_product_attention({a}, {a}, {b}, attn_mask=lib.ones(len({a}), len({a})).tril().bool())
(({a} @ {b}.T).masked_fill(lib.ones(len({a}), len({a})).triu(1).bool(), -9.0)).softmax(1) @ {b}
F.conv2d({a}[None], s.plane, padding=1)[0]
F.max_pool2d({a}[None], 3, 1, 1)[0]
F.conv_transpose1d({a}.T, s.kernel, padding=1).T
F.group_norm({a}.T[None], 2)[0].T
F.instance_norm({a}.T[None])[0].T
{a}.gather(0, {a}.argsort(0))
lib.take_along_dim({a}, {a}.argmax(0, keepdim=True), 0) + {b}
{a}.scatter_reduce(0, index[:, None].expand(-1, {d}), {a}[index] * 0.5, "amax")
{a} + {a}.mean(0).expand(len({a}), -1)
lib.logcumsumexp({a}, 0) * 0.1
{a} * ({a}[:, None] - {b}[None]).abs().mean((0, 2))[:, None]
"""
OTHER = """
{a}[::2]
{a}[1:]
{a}[:-1]
{a}[:{k}]
{a}[{k}:]
{a}[-{k}:]
{a}[len({a}) // 2:]
{a}[index]
{a}.index_select(0, index)
{a}[{q} > 0]
{a}[{q}.argsort()]
lib.cat([{a}, {p}])
lib.cat([{a}, {v}[None]])
lib.cat([{v}[None], {a}, {p}[1:]])
lib.stack([{v}, {z}])
lib.stack([row for part in parts for row in part])
lib.cat([lib.stack(part) for part in parts if part])
{a}.repeat(2, 1)
{a}.repeat_interleave(2, 0)
F.avg_pool1d({a}.T[None], 2)[0].T
F.conv1d({a}.T[None], s.kernel)[0].T
lib.zeros({k}, {d}, dtype={a}.dtype) + {v}
{a}[[0, -1]]
{a}[lib.arange(len({a}) - 1, -1, -1)]
{a}.topk(min(2, len({a})), 0)[0]
lib.vstack([{a}, {v}, {p}])
lib.diff({a}, dim=0)
F.pad({a}, (0, 0, 0, {k}))
{a}.chunk(2)[0]
lib.zeros({k} + len({a}), {d}, dtype={a}.dtype).index_add(0, lib.arange(len({a})), {a})
"""
VECTOR = """
{a}.sum(0)
{a}.mean(0)
{a}.mean(dim=0, keepdim=True)[0]
{a}.amax(0)
{a}.max(0)[0]
{a}.max(0).values
lib.logsumexp({a}, 0)
lib.linalg.vector_norm({a} + 1.0, dim=0)
{a}[-1]
{a}[0]
{a}[{k}]
{a}[len({a}) // 2]
{a}[{a}.argmax(0)[0]]
F.softmax({q}, 0) @ {a}
{a}.T @ {q}
({a} * {b}).sum(0)
({a} * F.softmax({a} @ {v}, dim=0)[:, None]).sum(0)
s.lstm({a})[1][0][-1]
s.gru({a})[1][0]
s.pooled({a}, s.w)
lib.cat([{a}[:, :{h}].sum(0), {p}[:, {h}:].mean(0)])
{v} + {a}.sum() * 0.01
{a}.var(0, unbiased=False)
{a}.std(0)
{a}.cumprod(0)[-1]
{a}.argmax(0) * {v}
({a} > {c}).any(0) * {v} + ({a} > 0).sum(0)
lib.einsum("nd,n->d", {a}, {q})
{a}.median(0)[0]
sum({a}) * 0.1
lib.stack(list({a})).mean(0)
{v} * len({a}) * 0.1
lib.tanh({a}.prod(0))
{q} @ {a}
F.adaptive_avg_pool1d({a}.T, 1)[:, 0]
{v} * {a}.norm() * 0.1
s.attention({v}[None], {a}, {a})[0][0]
"""
FROM_VECTORS = """
lib.tanh({v})
lib.tanh({v}) * {z}
{v} * {c} + {z}
lib.tanh({v} + {z} * number)
s.linear({v})
lib.tanh(s.w @ {v} + s.v)
lib.tanh({v} @ s.w)
s.cell({v}, {z})
s.norm({v} + {z})
F.softmax({v}, -1)
lib.where({v} > {z}, {v}, {c} * {z})
lib.cat([{v}[{h}:], {z}[:{h}]])
lib.maximum({v}, {z})
s.gate({v}, {z})
"""
COLUMN = """
{a}.sum(1)
lib.tanh({a} @ {v})
({a} * {b}).sum(-1)
{a}.amax(1)
{a}[:, 0]
F.softmax({a} @ {v}, 0)
F.log_softmax({a}.mean(1), 0)
{a}.argmax(1).to({a}.dtype)
lib.tanh({a} @ {p}.T).sum(1)
({a}[:, None] - {p}[None]).square().sum(-1).mean(1)
({a} @ {p}.T).softmax(0).sum(1)
({a} @ {p}.T).logsumexp(1)
lib.cumsum({a}.mean(1), 0)
{a}[lib.arange(len({a})), {a}.argmax(1)]
({a} @ {b}.T).diagonal()
({a} @ {a}.T).tril(-1).sum(0)
s.linear({a})[..., -1]
"""
LOSSES = """
F.cross_entropy({a}, words % {d})
F.cross_entropy({a}, words % {d}, reduction="sum")
F.mse_loss({a}, {b})
F.binary_cross_entropy_with_logits({a}[:, 0], ({b}[:, 1] > 0).to({a}.dtype))
F.smooth_l1_loss({a}, {b}, reduction="sum")
F.nll_loss(F.log_softmax({a}, 1), words % {d})
F.cross_entropy({v}, words[0] % {d})
{a}.square().mean()
-F.log_softmax({a}, 1)[lib.arange(len({a})), words % {d}].mean()
{q} @ {q}
(lib.linalg.vector_norm({a} + 2.0, dim=1) * {q}).sum()
"""
KINDS = {"same": SAME, "other": OTHER, "vector": VECTOR, "turned": FROM_VECTORS, "column": COLUMN, "loss": LOSSES}
EXPRESSIONS = {kind: text.strip().splitlines() for kind, text in KINDS.items()}
BLOCKS = {  # with the features that they are
    **dict.fromkeys(("rows", "places", "parts"), "loops"),
    **dict.fromkeys(("value", "while", "row values", "return"), "reads"),
    "size": "branches",
}


@dataclass(frozen=True)
class SampleProgram:
    """One program. A call has `n_samples` samples, whose sizes are from `smallest` to `largest`."""

    seed: int
    number: int
    text: str
    width: int
    double: bool
    n_samples: int
    smallest: int
    largest: int
    features: tuple[str, ...]

    @property
    def about(self) -> str:
        sizes = f"{self.n_samples} samples of {self.smallest}-{self.largest} x {self.width}"
        return sizes + "".join(f", {feature}" for feature in self.features) + (", float64" if self.double else "")

    def in_double(self) -> SampleProgram:
        return replace(self, double=True)

    def function(self, lib: Any, state: Any) -> Callable[..., Any]:
        """As Python makes it of the text: a new one each time."""
        names = {"lib": lib, "F": lib.nn.functional, "s": state}
        file = f"<program {self.number}>"
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(keepends=True), file)  # it has a source
        exec(compile(self.text, file, "exec"), names)
        return names["sample"]

    def state(self, lib: Any) -> SimpleNamespace:
        nn, width = lib.nn, self.width
        layers = nn.ModuleDict(
            {
                "linear": nn.Linear(width, width),
                "embedding": nn.Embedding(N_WORDS, width),
                "norm": nn.LayerNorm(width),
                "cell": nn.GRUCell(width, width),
                "lstm": nn.LSTM(width, width),
                "gru": nn.GRU(width, width),
                "attention": nn.MultiheadAttention(width, 2),
                "layer": nn.TransformerEncoderLayer(width, 2, 2 * width, 0.0),
                "conv": nn.Conv1d(width, width, 3, padding=1),
                "decoder": nn.TransformerDecoderLayer(width, 2, 2 * width, 0.0),
            }
        )
        weights = filled(lib, layers.double() if self.double else layers)
        rng = np.random.RandomState(self.number % 2**32)
        dtype = "f8" if self.double else "f4"
        shapes = {
            "w": (width, width),
            "v": (width,),
            "u": (width,),
            "table": (N_WORDS, width),
            "kernel": (width, width, 3),
            "plane": (1, 1, 3, 3),
        }
        own = {
            name: lib.from_numpy((rng.randn(*shape) / width**0.5).astype(dtype)).requires_grad_()
            for name, shape in shapes.items()
        }

        def gate(x: Any, y: Any) -> Any:
            return lib.sigmoid(x @ own["w"]) * y

        def turned(x: Any, weight: Any) -> Any:
            return lib.tanh(lib.nn.functional.linear(x, weight)) + x

        def pooled(x: Any, weight: Any) -> Any:
            return lib.tanh(x @ weight).sum(0)

        cells = {function.__name__: cell(lib, function) for function in (gate, turned, pooled)}
        functions = {**cells, "later": nn.Transformer.generate_square_subsequent_mask}
        return SimpleNamespace(**dict(layers.items()), **own, **functions, weights=[*weights, *own.values()])

    def samples(self, lib: Any, k: int) -> list[tuple[Any, ...]]:
        """Those of call k, new tensors that want gradients."""
        rng = np.random.RandomState([self.seed % 2**32, self.number % 2**32, k])
        dtype = "f8" if self.double else "f4"

        def rows(*shape: int) -> Any:
            return lib.from_numpy(rng.randn(*shape).astype(dtype)).requires_grad_()

        def sample() -> tuple[Any, ...]:
            n, m = rng.randint(self.smallest, self.largest + 1, 2)
            index = rng.randint(0, n, rng.randint(self.smallest, self.largest + 1)) if n else np.zeros(0, "i8")
            parts = [[rows(self.width) for _ in range(rng.randint(0, 4))] for _ in range(rng.randint(1, 4))]
            words = lib.from_numpy(rng.randint(0, N_WORDS, n))
            return rows(n, self.width), rows(m, self.width), lib.from_numpy(index), words, parts, float(rng.rand())

        return [sample() for _ in range(self.n_samples)]


class _Writer:
    """Draws statements. What is known wherever the next one goes: rows and columns by size, and vectors."""

    def __init__(self, rng: np.random.RandomState, width: int) -> None:
        self.rng, self.width = rng, width
        self.lines: list[str] = []
        self.rows = [("x", "n"), ("y", "m")]  # names, and a label that tensors with as many rows share
        self.columns: list[tuple[str, str]] = []
        self.vectors: list[str] = []
        self.features: set[str] = set()
        self.made_at: dict[str, int] = {}  # the number of lines when a tensor was there
        self.n_made = 0

    def new(self) -> str:
        self.n_made += 1
        return f"t{self.n_made}"

    def one_of(self, found: list[Any]) -> Any:
        return found[self.rng.randint(len(found))]

    def expression(self, kind: str, v: str | None = None, z: str | None = None) -> tuple[str, str]:
        """Its text, and the label of its {a}. Vectors are drawn unless they are given."""
        text = self.one_of(EXPRESSIONS[kind])
        like_x = "index" in text or "words" in text
        a, size = self.one_of([one for one in self.rows if one[1] == "n" or not like_x][-4:])
        same = [name for name, label in self.rows if label == size]
        if "{q}" in text:
            columns = [name for name, label in self.columns if label == size]
            q = self.one_of(columns) if columns else f"lib.tanh({a}.mean(1))"
        else:
            q = ""
        vectors = self.vectors[-4:] or ["s.v"]
        words = {
            "a": a,
            "b": self.one_of(same),
            "p": self.one_of(self.rows)[0],
            "q": q,
            "v": v or self.one_of(vectors),
            "z": z or self.one_of(vectors),
            "c": f"{self.rng.uniform(0.2, 1.2):.2f}",
            "k": self.rng.randint(1, 4),
            "d": self.width,
            "h": self.width // 2,
        }
        return text.format(**words), size

    def unread(self) -> list[str]:
        """The tensors that no line reads after they are made."""
        names = [*self.vectors, *(name for name, _ in [*self.rows, *self.columns])]
        later = {name: "\n".join(self.lines[self.made_at.get(name, 0) :]) for name in names}
        return [name for name, text in later.items() if not re.search(rf"\b{name}\b", text)]

    def statement(self) -> None:
        kinds = ["same", "other", "vector", "turned", "column"]
        kind = kinds[self.rng.choice(5, p=[0.5, 0.12, 0.2, 0.1, 0.08])]
        text, size = self.expression(kind)
        o = self.new()
        self.lines.append(f"{INDENT}{o} = {text}")
        if kind in ("same", "other"):
            self.rows.append((o, size if kind == "same" else o))
        elif kind == "column":
            self.columns.append((o, size))
        else:
            self.vectors.append(o)
        self.made_at[o] = len(self.lines)
        if any(word in text for word in ("dropout", "rand_like", "randn")):
            self.features.add("draws")

    def some(self, count: int) -> None:
        for _ in range(count):
            self.statement()

    def vector(self) -> str:
        """The name of one; there is always one after this."""
        if not self.vectors:
            o, (text, _) = self.new(), self.expression("vector")
            self.lines.append(f"{INDENT}{o} = {text}")
            self.vectors.append(o)
        return str(self.one_of(self.vectors[-4:]))

    def turn(self, depth: int, h: str, other: str) -> None:
        """One or two statements that go on with the vector `h`, in a loop or a branch."""
        for _ in range(self.rng.randint(1, 3)):
            self.lines.append(f"{INDENT * depth}{h} = {self.expression('turned', h, other)[0]}")

    def block(self, shape: str) -> None:
        """A loop or a branch; its result is one more vector, or rows."""
        start = self.vector()
        h, (a, size) = self.new(), self.one_of(self.rows[-4:])
        put = self.lines.append
        reads = ("value", "while", "row values", "return")
        self.features.add(
            "reads" if shape in reads else "loops" if shape in ("rows", "places", "parts") else "branches"
        )
        put(f"{INDENT}{h} = {start}")
        if shape == "rows":
            put(f"{INDENT}for row in {a}:")
            self.turn(2, h, "row")
        elif shape == "places":
            o = self.new()
            put(f"{INDENT}{o} = []")
            put(f"{INDENT}for t in range(len({a})):")
            self.turn(2, h, f"{a}[t]")
            put(f"{INDENT * 2}{o}.append({h})")
            put(f"{INDENT}{o} = lib.stack({o})")
            self.rows.append((o, size))
            self.made_at[o] = len(self.lines)
        elif shape == "parts":
            put(f"{INDENT}for part in parts:")
            put(f"{INDENT * 2}inner = {start}")
            put(f"{INDENT * 2}for row in part:")
            self.turn(3, "inner", "row")
            self.turn(2, h, "inner")
        elif shape in ("value", "size"):
            put(f"{INDENT}if {f'{h}.sum().item() > 0.0' if shape == 'value' else f'len({a}) > 3'}:")
            self.turn(2, h, self.vector())
            put(f"{INDENT}else:")
            self.turn(2, h, self.vector())
        elif shape == "while":
            put(f"{INDENT}n = 0")
            put(f"{INDENT}while n < 5 and float(lib.linalg.vector_norm({h}.detach())) > {self.width**0.5 / 3:.2f}:")
            put(f"{INDENT * 2}{h} = {h} * 0.7")
            put(f"{INDENT * 2}n += 1")
            self.turn(2, h, start)
        elif shape == "row values":
            put(f"{INDENT}for row in {a}[:4]:")
            put(f"{INDENT * 2}if row[0].item() > 0.0:")
            self.turn(3, h, "row")
            put(f"{INDENT * 2}else:")
            self.turn(3, h, "row")
        else:
            put(f"{INDENT}if {h}.mean().item() > 0.1:")
            put(f"{INDENT * 2}return [{h}, {a}]")
        self.vectors.append(h)
        self.made_at[h] = len(self.lines)


def draw(seed: int, number: int) -> SampleProgram:
    """The program of that number, which may be negative."""
    rng = np.random.RandomState([seed, number % 2**32, 20])
    width = int(rng.choice(WIDTHS))
    writer = _Writer(rng, width)
    writer.lines.append(f"def sample({', '.join(ARGUMENTS)}):")
    for _ in range(rng.randint(1, 4)):
        writer.some(rng.randint(1, 6))
        if rng.rand() < 0.5:
            writer.block(str(rng.choice(list(BLOCKS))))
    last = writer.vector()
    if rng.rand() < 0.4:
        writer.lines.append(f"{INDENT}loss = {writer.expression('loss')[0]}")
        last = "loss"
    # Mostly all that nobody has read counts; some programs compute what is for nothing.
    results = [last] if rng.rand() < 0.1 else [*writer.unread(), *(["loss"] if last == "loss" else [])]
    writer.lines.append(f"{INDENT}return [{', '.join(results or [last])}]")
    kind = rng.rand()
    smallest = 0 if kind < 0.15 else 1 if kind < 0.6 else 4
    return SampleProgram(
        seed,
        number,
        "\n".join(writer.lines) + "\n",
        width,
        bool(rng.rand() < 0.3),
        int(rng.choice(SAMPLES)),
        smallest,
        smallest + int(rng.choice([0, 3, 8, 20])) if smallest else int(rng.choice([2, 6])),
        tuple(sorted(writer.features)),
    )
