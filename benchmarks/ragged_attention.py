"""A layer of self-attention over 16 sequences of 16 to 512 elements: 256 features, 4 heads, Adam.

Every step has sequences of lengths that no earlier step had. PyTorch pads them to the longest of the step and masks the
padding; its other rows are what its users may do instead. Time is that of a whole training step. Memory is what steps
add at their peak, above model and data, each peer in a fresh process: activations, gradients, what is kept for reuse.
Both may be at most 0.6 of what padding takes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from interleave import COMPILED, Result, measure, started
from memory import FIRST_USE
from report import BASELINE, OURS, shown, source, table, verdict
from workload import (
    LEARNING_RATE,
    Library,
    Peers,
    Step,
    Workload,
    Wrap,
    as_it_is,
    fill,
    mirrored,
    own_peers,
    run_this,
    torch,
    trainer,
)

N_SEQUENCES, N_FEATURES, N_HEADS = 16, 256, 4
SHORTEST, LONGEST = 16, 512
BLOCK, N_BLOCKS = 2, 24
N_POOL = 20_000  # vectors of which every step takes some
FLOOR = 0.6
N_MEMORY_STEPS = 20


def data() -> tuple[dict[str, Any], list[tuple[Any, list[int]]]]:
    """Weights as (in, out), and for each step all elements, and the lengths. All blocks have as many elements."""
    rng = np.random.RandomState(0)
    weights = {
        "projections": rng.randn(N_FEATURES, 3 * N_FEATURES) / N_FEATURES**0.5,
        "projections bias": np.zeros(3 * N_FEATURES),
        "result": rng.randn(N_FEATURES, N_FEATURES) / N_FEATURES**0.5,
        "result bias": np.zeros(N_FEATURES),
    }
    pool = rng.randn(N_POOL, N_FEATURES).astype("f4")
    steps = []
    for _ in range(N_BLOCKS):
        drawn = mirrored(rng, SHORTEST, LONGEST, BLOCK * N_SEQUENCES)
        for k in range(0, len(drawn), N_SEQUENCES):
            lengths = drawn[k : k + N_SEQUENCES]
            first = rng.randint(N_POOL - sum(lengths))
            steps.append((pool[first : first + sum(lengths)], lengths))
    return {name: w.astype("f4") for name, w in weights.items()}, steps


def layer(lib: Any) -> tuple[Any, Any, list[Any], list[tuple[Any, list[int]]]]:
    """Both linear maps, their parameters, and the steps."""
    weights, steps = data()
    projections, result = lib.nn.Linear(N_FEATURES, 3 * N_FEATURES), lib.nn.Linear(N_FEATURES, N_FEATURES)
    arrays = [w.T if w.ndim == 2 else w for w in weights.values()]
    parameters = fill(lib, lib.nn.ModuleList([projections, result]).parameters(), arrays)
    return projections, result, parameters, steps


def attended(lib: Any, projections: Any, result: Any, x: Any, own_memory: bool = False) -> Any:
    """Self-attention of (B, *, features). own_memory: queries, keys and values do not share theirs."""
    heads = [t.unflatten(-1, (N_HEADS, -1)) for t in projections(x).chunk(3, -1)]
    q, k, v = ((t.contiguous() if own_memory else t).transpose(1, 2) for t in heads)
    return result(lib.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def program(library: Library, wrap: Wrap = as_it_is) -> Step:
    lib = library()
    projections, result, parameters, steps = layer(lib)

    def loss_of(x: Any) -> Any:
        return (attended(lib, projections, result, x) ** 2).mean()

    batches = [(lib.ragged_from_values(lib.from_numpy(values), lengths),) for values, lengths in steps]
    return trainer(lib, loss_of, lib.optim.Adam(parameters, lr=LEARNING_RATE), batches, wrap)


def with_torch(style: str) -> Step:
    """Sequences "padded", in a "nested" tensor, or one at a time in the attention and else together ("looped")."""
    lib = torch()
    F = lib.nn.functional
    projections, result, parameters, steps = layer(lib)

    def padded(values: Any, lengths: list[int]) -> Any:
        mask = lib.arange(max(lengths)) < lib.tensor(lengths)[:, None]
        x = lib.nn.utils.rnn.pad_sequence(values.split(lengths), batch_first=True)
        q, k, v = (t.unflatten(-1, (N_HEADS, -1)).transpose(1, 2) for t in projections(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, mask[:, None, None])
        return result(y.transpose(1, 2).flatten(2)[mask])

    def looped(values: Any, lengths: list[int]) -> Any:
        parts = projections(values).unflatten(-1, (3, N_HEADS, -1)).split(lengths)
        rows = [F.scaled_dot_product_attention(*part.permute(1, 2, 0, 3).unsqueeze(1))[0] for part in parts]
        return result(lib.cat(rows, 1).transpose(0, 1).flatten(1))

    def nested(values: Any, lengths: list[int]) -> Any:
        offsets = lib.tensor(np.cumsum([0, *lengths]))
        x = lib.nested.nested_tensor_from_jagged(values, offsets, max_seqlen=max(lengths), min_seqlen=min(lengths))
        return attended(lib, projections, result, x, own_memory=True).values()  # PyTorch asks for it

    run = {"padded": padded, "looped": looped, "nested": nested}[style]

    def loss_of(values: Any, lengths: list[int]) -> Any:
        return (run(values, lengths) ** 2).mean()

    batches = [(lib.from_numpy(values), lengths) for values, lengths in steps]
    return trainer(lib, loss_of, lib.optim.Adam(parameters, lr=LEARNING_RATE, fused=True), batches)


PEERS: Peers = {
    **own_peers(program, fixed=False),
    "torch": partial(with_torch, "padded"),
    "torch looped": partial(with_torch, "looped"),
    "torch nested": partial(with_torch, "nested"),
}
TIMED = Workload("ragged_attention", __doc__, BLOCK, PEERS, floor=FLOOR, compiled_floor=FLOOR)
WORKLOADS = [TIMED, FIRST_USE]


def added_memory(peer: str) -> tuple[float, str]:
    """MiB that steps add at their peak, or why that is not known."""
    with started("ragged_attention", [peer]) as (process,):
        if peer in FIRST_USE.peers:
            process.ask(build=FIRST_USE.name)
            process.ask(run=[0, N_MEMORY_STEPS])
        process.ask(build=TIMED.name)
        answer = process.ask(memory=N_MEMORY_STEPS)
    return answer.get("peak", 0.0) - answer.get("built", 0.0), answer.get("error", "")


def row(result: Result, base: Result, memory: dict[str, tuple[float, str]]) -> list[str]:
    problem = result.error or memory[result.peer][1]
    if problem or base.error:
        return [result.peer, *[""] * 6, problem or base.error]
    ours = result.peer in (OURS, COMPILED)
    ratios = result.minimum / base.minimum, memory[result.peer][0] / memory[BASELINE][0]
    floors = [verdict(ratio, FLOOR) if ours else "" for ratio in ratios]
    note = "" if result.agrees_with(base) else "LOSS DIFFERS"
    cells = [f"{result.minimum:.1f}", shown(ratios[0]), floors[0], f"{memory[result.peer][0]:.1f}", shown(ratios[1])]
    return [result.peer, *cells, floors[1], note]


def section(wanted: str | None, rounds: int) -> str:
    from run import choose

    peers = choose(list(PEERS), wanted)
    with started("ragged_attention", peers) as processes:
        results = measure(TIMED, processes, rounds)
    memory = {peer: added_memory(peer) for peer in peers}
    (base,) = (result for result in results if result.peer == BASELINE)
    header = ["peer", "minimum ms", "ratio", "floor", "added MB", "ratio", "floor", "note"]
    rows = [row(result, base, memory) for result in results]
    where = source(results, f"{rounds} rounds of {BLOCK} steps, {N_MEMORY_STEPS} steps for memory")
    return f"### ragged_attention\n\n{__doc__.strip()}\n\n{table(header, rows)}\n\n{where}"


if __name__ == "__main__":
    run_this(__file__)
