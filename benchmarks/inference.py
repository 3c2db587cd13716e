"""One sample, 8 and 64 through exported programs: an MLP, a step of an LSTM, a ragged classifier, an encoder, a GPT.

- MLP 64-256-256-10 with relu; one step of an LSTM cell of 128 features, whose states go in and come out;
- ragged classifier: 5 to 200 tokens a sample, 128 features, a hidden layer and a softmax over the tokens. PyTorch pads
  batches to their longest sample and masks the padding;
- encoder: nn.TransformerEncoder, 4 layers of 256 features, 4 heads, 64 tokens;
- GPT decoding: 6 layers of 384 features, 6 heads, one token a step after 56 to 63 and after 184 to 191 others, whose
  keys and values go in and come out.

Extempo runs `ex.program(model, ...)`, PyTorch the module in inference mode, onnxruntime the file of `program.to_onnx`.
Every peer has one thread, is given its own kind of tensors, and returns them. Times are microseconds a call.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from interleave import Result, measure, started
from report import BASELINE, shown, source, table, verdict
from workload import Peers, Step, Workload, extempo, fill, mirrored, run_this, torch

OURS, COMPILED, ONNX = "extempo program", "torch.compile", "onnxruntime"
BATCHES = (1, 8, 64)
N_TOKENS, SHORTEST, LONGEST = 1000, 5, 200
GPT_LAYERS, GPT_WIDTH, GPT_HEADS, GPT_CONTEXT, GPT_CHARACTERS = 6, 384, 6, 256, 65
GPT_STARTS, GPT_RUN = (56, 184), 8  # tokens that are there already, and how many follow
N_REQUESTS = 16  # different inputs, again and again

# The most that a program may take, relative to PyTorch eager at batch 1 and to onnxruntime at every batch.
TORCH_FLOORS = {"mlp": 0.5, "lstm_step": 0.5, "ragged": 0.5, "encoder": 0.85, "gpt": 0.85}
ONNX_FLOORS = {"mlp": 1.2, "lstm_step": 1.2, "ragged": 1.0, "encoder": 1.2, "gpt": 1.2}

Arrays = tuple[Any, ...]  # the arguments of a call


# ---- models: the same text for Extempo and PyTorch


def mlp(lib: Any) -> Any:
    nn = lib.nn
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def lstm_step(lib: Any) -> Any:
    class Step(lib.nn.Module):  # type: ignore[misc] # of a library that is known when it runs
        def __init__(self) -> None:
            super().__init__()
            self.cell = lib.nn.LSTMCell(128, 128)

        def forward(self, x: Any, h: Any, c: Any) -> Any:
            return self.cell(x, (h, c))

    return Step()


def ragged(lib: Any) -> Any:
    nn = lib.nn

    class Classifier(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(N_TOKENS, 128)
            self.inner = nn.Linear(128, 128)
            self.score, self.head = nn.Linear(128, 1), nn.Linear(128, 5)

        def forward(self, tokens: Any, mask: Any = None) -> Any:
            """tokens: (batch, *), ragged, or padded with a mask that says which are tokens."""
            h = self.inner(self.table(tokens)).relu()
            scores = self.score(h).squeeze(-1)
            if mask is not None:
                scores = scores.masked_fill(~mask, float("-inf"))
            return self.head((h * scores.softmax(1).unsqueeze(-1)).sum(1))

    return Classifier()


def encoder(lib: Any) -> Any:
    nn = lib.nn
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


def gpt(lib: Any) -> Any:
    nn, functional = lib.nn, lib.nn.functional

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(GPT_WIDTH), nn.LayerNorm(GPT_WIDTH)
            self.qkv, self.proj = nn.Linear(GPT_WIDTH, 3 * GPT_WIDTH), nn.Linear(GPT_WIDTH, GPT_WIDTH)
            self.fc, self.out = nn.Linear(GPT_WIDTH, 4 * GPT_WIDTH), nn.Linear(4 * GPT_WIDTH, GPT_WIDTH)

        def forward(self, h: Any, keys: Any, values: Any) -> Any:
            parts = self.qkv(self.norm1(h)).split(GPT_WIDTH, 2)
            q, k, v = (p.unflatten(2, (GPT_HEADS, GPT_WIDTH // GPT_HEADS)).transpose(1, 2) for p in parts)
            keys, values = lib.cat([keys, k], 2), lib.cat([values, v], 2)
            mixed = functional.scaled_dot_product_attention(q, keys, values)
            h = h + self.proj(mixed.transpose(1, 2).flatten(2))
            return h + self.out(functional.gelu(self.fc(self.norm2(h)), approximate="tanh")), keys, values

    class Decoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(GPT_CHARACTERS, GPT_WIDTH)
            self.places = nn.Embedding(GPT_CONTEXT, GPT_WIDTH)
            self.layers = nn.ModuleList([Layer() for _ in range(GPT_LAYERS)])
            self.norm, self.head = nn.LayerNorm(GPT_WIDTH), nn.Linear(GPT_WIDTH, GPT_CHARACTERS, bias=False)

        def forward(self, token: Any, past: Any) -> Any:
            """token: (batch, 1); past: keys and values of every layer, (batch, heads, tokens, features)."""
            place = past[0].shape[2]
            h = self.characters(token) + self.places.weight[place : place + 1]
            present = []
            for i, layer in enumerate(self.layers):
                h, keys, values = layer(h, past[2 * i], past[2 * i + 1])
                present += [keys, values]
            return self.head(self.norm(h)), present

    return Decoder()


MODELS: dict[str, Callable[[Any], Any]] = {
    "mlp": mlp,
    "lstm_step": lstm_step,
    "ragged": ragged,
    "encoder": encoder,
    "gpt": gpt,
}


# ---- inputs, as arrays


def requests(name: str, batch: int) -> list[Arrays]:
    """The arguments of calls; of the ragged classifier a list of samples, of the GPT the first of GPT_RUN calls."""
    rng = np.random.RandomState(0)

    def normal(*shape: int) -> Any:
        return rng.randn(*shape).astype("f4")

    if name == "mlp":
        return [(normal(batch, 64),) for _ in range(N_REQUESTS)]
    if name == "lstm_step":
        return [(normal(batch, 128), normal(batch, 128), normal(batch, 128)) for _ in range(N_REQUESTS)]
    if name == "encoder":
        return [(normal(batch, 64, 256),) for _ in range(N_REQUESTS)]
    if name == "ragged":
        lengths = iter(mirrored(rng, SHORTEST, LONGEST, N_REQUESTS * batch))
        return [([rng.randint(0, N_TOKENS, next(lengths)) for _ in range(batch)],) for _ in range(N_REQUESTS)]
    found = []
    for n in GPT_STARTS:
        past = [normal(batch, GPT_HEADS, n, GPT_WIDTH // GPT_HEADS) for _ in range(2 * GPT_LAYERS)]
        found.append((rng.randint(0, GPT_CHARACTERS, (batch, 1)), past))
    return found


def padded(samples: Sequence[Any]) -> Arrays:
    """Tokens of one sample, or of several with a mask."""
    if len(samples) == 1:
        return (samples[0][None],)
    longest = max(map(len, samples))
    tokens = np.stack([np.pad(s, (0, longest - len(s))) for s in samples])
    return tokens, np.arange(longest) < np.array([[len(s)] for s in samples])


def example(lib: Any, name: str, batch: int = 2) -> tuple[Any, Any]:
    """A call to export a program from, and which sizes of it stay open."""
    arguments = requests(name, batch)[0]
    if name == "mlp":
        return given(lib, arguments), {"input": {0: "batch"}}
    if name == "lstm_step":
        return given(lib, arguments), {argument: {0: "batch"} for argument in "xhc"}
    if name == "ragged":
        return (lib.ragged(arguments[0]),), None
    if name == "encoder":
        return given(lib, arguments), {"src": {0: "batch"}}
    return given(lib, arguments), {"token": {0: "batch"}, "past": [{0: "batch", 2: "time"}] * (2 * GPT_LAYERS)}


def given(lib: Any, arguments: Arrays) -> Arrays:
    """Arrays as tensors."""
    return tuple([[lib.from_numpy(a) for a in x] if isinstance(x, list) else lib.from_numpy(x) for x in arguments])


# ---- peers


def filled(lib: Any, name: str) -> Any:
    """The model with weights that are the same in both libraries."""
    model = MODELS[name](lib).eval()
    rng = np.random.RandomState(1)
    fill(lib, model.parameters(), [(0.1 * rng.randn(*p.shape)).astype("f4") for p in model.parameters()])
    return model


def calls(run: Callable[..., Any], name: str, arguments: list[Arrays]) -> Iterator[Any]:
    """Results of one call after the other; the GPT goes on with the keys and values that it gave."""
    while True:
        for these in arguments:
            if name != "gpt":
                yield run(*these)
                continue
            token, past = these
            for _ in range(GPT_RUN):
                scores, past = run(token, past)
                yield scores


def stepping(run: Callable[..., Any], name: str, arguments: list[Arrays], n_checked: int, read: Any) -> Step:
    """The calls as steps; only those of the first block are looked at, to see that all peers give the same."""
    following = calls(run, name, arguments)

    def step(i: int) -> float:
        result = next(following)
        if i >= n_checked:
            return 0.0
        while isinstance(result, tuple | list):
            result = result[0]
        return float(np.abs(read(result)).mean())

    return step


def with_torch(name: str, batch: int, n_checked: int, compiled: bool = False) -> Step:
    lib = torch()
    model = filled(lib, name)
    run = lib.compile(model) if compiled else model
    arrays = requests(name, batch)
    arguments = [given(lib, padded(*a) if name == "ragged" else a) for a in arrays]

    def call(*args: Any) -> Any:
        with lib.inference_mode():
            return run(*args)

    return stepping(call, name, arguments, n_checked, lambda t: t.numpy())


def exported(lib: Any, name: str) -> Any:
    call, dynamic = example(lib, name)
    return lib.program(filled(lib, name), call, dynamic=dynamic)


def with_program(name: str, batch: int, n_checked: int) -> Step:
    lib = extempo()
    arrays = requests(name, batch)
    arguments = [(lib.ragged(a[0]),) if name == "ragged" else given(lib, a) for a in arrays]
    return stepping(exported(lib, name), name, arguments, n_checked, lambda t: t.numpy())


def with_onnx(name: str, batch: int, n_checked: int) -> Step:
    import onnxruntime

    lib = extempo()
    program = exported(lib, name)
    if not hasattr(program, "to_onnx"):
        raise RuntimeError("program.to_onnx is missing")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.onnx")
        program.to_onnx(str(file))
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    names = [spec.name for spec in session.get_inputs()]

    def call(*args: Any) -> Any:
        flat = [a for x in args for a in (x if isinstance(x, list) else [x])]
        results = session.run(None, dict(zip(names, flat, strict=True)))
        return (results[0], results[1:]) if name == "gpt" else results

    arrays = requests(name, batch)
    if name == "ragged":
        arrays = [(np.concatenate(a[0]), np.cumsum([0, *map(len, a[0])])) for a in arrays]
    return stepping(call, name, arrays, n_checked, np.asarray)


def workload(name: str, batch: int) -> Workload:
    block = {"gpt": GPT_RUN * len(GPT_STARTS), "encoder": N_REQUESTS if batch == 1 else 2}.get(name, N_REQUESTS)
    if name in ("mlp", "lstm_step", "ragged"):
        block *= 64 // batch
    arguments = (name, batch, block)
    peers: Peers = {
        OURS: partial(with_program, *arguments),
        BASELINE: partial(with_torch, *arguments),
        COMPILED: partial(with_torch, *arguments, compiled=True),
        ONNX: partial(with_onnx, *arguments),
    }
    return Workload(f"{name} {batch}", __doc__, block, peers, warm_up=3)


WORKLOADS = [workload(name, batch) for name in MODELS for batch in BATCHES]


# ---- the table

HEADER = (
    "model, batch",
    "program us",
    "samples/s",
    "torch us",
    "torch.compile us",
    "onnxruntime us",
    "to torch",
    "floor",
    "to onnxruntime",
    "floor",
    "note",
)


def row(measured: Workload, results: Sequence[Result]) -> list[str]:
    by_peer = {r.peer: r for r in results}
    name, batch = measured.name.split()
    times = {peer: r.minimum * 1e3 for peer, r in by_peer.items() if not r.error and r.times}
    ours = times.get(OURS)
    cells = [f"{name} {batch}"]
    cells += [f"{ours:.1f}", f"{int(batch) * 1e6 / ours:.0f}"] if ours else ["failed", ""]
    cells += [f"{times[peer]:.1f}" if peer in times else "-" for peer in (BASELINE, COMPILED, ONNX)]
    for peer, floor in ((BASELINE, TORCH_FLOORS[name] if batch == "1" else None), (ONNX, ONNX_FLOORS[name])):
        ratio = ours / times[peer] if ours and peer in times else None
        cells += [shown(ratio) if ratio else "-", verdict(ratio, floor) if ratio and floor else ""]
    notes = [f"{peer}: {r.error}" for peer, r in by_peer.items() if r.error]
    base = by_peer.get(BASELINE)
    notes += [
        f"{peer} DIFFERS"
        for peer, r in by_peer.items()
        if base and not base.error and not r.error and not r.agrees_with(base)
    ]
    return [*cells, "; ".join(notes)]


def section(wanted: str | None, rounds: int) -> str:
    """One process for each peer and workload: plans and kernels of one do not help another."""
    chosen = None if wanted is None else {OURS, BASELINE, *wanted.split(",")}
    rows, results = [], []
    for measured in WORKLOADS:
        peers = [peer for peer in measured.peers if chosen is None or peer in chosen]
        with started("inference", peers) as processes:
            results = measure(measured, processes, rounds)
        rows.append(row(measured, results))
    where = source(results, f"minima of {rounds} rounds")
    return f"### inference\n\n{(__doc__ or '').strip()}\n\n{table(HEADER, rows)}\n\n{where}"


if __name__ == "__main__":
    run_this(__file__)
