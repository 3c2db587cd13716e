"""Routines of recurrent layers over packed rows: LSTM, GRU and plain RNN, and their gradients, float32 and float64.

A call is bound by the numbers of rows, steps and sequences; how long each sequence is, it reads when it runs. Blocks of
sequences are chunks for threads, and a result never depends on how they are shared. A step's product is a chain of
fused multiply-adds in the order of k, so its bits do not depend on which sequences are computed together.
"""

from __future__ import annotations

from ....core.types import TensorType
from .gemm import Gemm, gemm_of, plan
from .gemm_plan import CHUNK_PRODUCTS, GROUP_BYTES, MAX_CHUNKS
from .gemm_tiles import MAX_ROWS
from .products import usable
from .recurrence_code import (
    GRU,
    GRU_GRADIENT,
    LSTM,
    LSTM_GRADIENT,
    NUMBERS,
    RecurrenceCell,
    rnn,
    rnn_gradient,
    write_backward,
    write_forward,
)
from .routine import FLOATS, Attrs, Bound, Inputs, build, rounded_up, routine

NEAR_BYTES = 1 << 19  # of a packed weight that stays in a second-level cache: it may be read again for every tile
MANY_ROWS = 8 * MAX_ROWS  # of a block that a larger weight is read for at once


def _numbers(gemm: Gemm, n_steps: int, n_rows: int, n_sequences: int, hidden: int, width: int) -> dict[str, int]:
    """NUMBERS, but for those that depend on the direction."""
    t = gemm.t
    weight_bytes = max(rounded_up(width, t.columns) * hidden, rounded_up(hidden, t.columns) * width) * t.size
    most = MAX_ROWS if weight_bytes <= NEAR_BYTES else MANY_ROWS
    n_blocks = -(-n_sequences // most)
    n_chunks = max(1, min(n_blocks, MAX_CHUNKS, n_rows * hidden * width // CHUNK_PRODUCTS))
    chunk_blocks = -(-n_blocks // n_chunks)
    strip_row = rounded_up(width, t.columns) * t.size
    zeros_at = rounded_up(weight_bytes, 64)
    return {
        "n_steps": n_steps,
        "n_rows": n_rows,
        "n_sequences": n_sequences,
        "n_features": 0,
        "hidden": hidden,
        "width": width,
        "n_blocks": n_blocks,
        "block_rows": n_sequences // n_blocks,
        "n_taller": n_sequences % n_blocks,
        "n_chunks": -(-n_blocks // chunk_blocks),
        "chunk_blocks": chunk_blocks,
        "zeros_at": zeros_at,
        "strips_at": zeros_at + rounded_up(width * t.size, 64),
        "strip_row": strip_row,
        "strip_bytes": rounded_up(strip_row * -(-n_sequences // n_blocks), 64),
    }


def _bind(
    name: str, cell: RecurrenceCell, types: Inputs, n_sequences: int, descending: bool, is_gradient: bool
) -> Bound | None:
    given = {n: t for n, t in zip(cell.inputs, types, strict=True) if isinstance(t, TensorType)}
    weight, sizes, dtype = given["weight"], given["sizes"], given["weight"].dtype
    n_rows = next(given[n] for n in ("x", "gates", "rows") if n in given).shape[0]
    width, hidden = weight.shape
    n_features = given["x"].shape[1] if "x" in given else hidden
    element = FLOATS.get(dtype._name)
    same = all(t.dtype is dtype for n, t in given.items() if n != "sizes")
    if element is None or not same or not usable() or 0 in (n_sequences, hidden, n_rows, n_features):
        return None
    gemm = gemm_of(element)
    numbers = _numbers(gemm, sizes.shape[0], n_rows, n_sequences, hidden, width)
    k = width if is_gradient else hidden
    numbers["group"] = max(1, GROUP_BYTES // (k * gemm.t.sliver_step)) * gemm.t.columns
    numbers["n_features"], numbers["descending"] = n_features, int(descending)
    address = build(gemm.symbol(name), write_backward if is_gradient else write_forward, gemm, cell)
    meta = (*(numbers[n] for n in NUMBERS), *(gemm.panel(n) for n in range(1, MAX_ROWS + 1)))
    scratch = numbers["strips_at"]
    if not is_gradient:
        p = plan(n_rows, width, n_features, gemm.t)
        meta = (*meta, *p, *gemm.functions(p))
        scratch = max(p.scratch, scratch + numbers["n_chunks"] * numbers["strip_bytes"])
    shapes = _shapes(cell, n_rows, n_sequences, hidden, width)
    reads = "".join("c" if isinstance(t, TensorType) else "-" for t in types)
    return Bound(address, reads, tuple(TensorType(shapes[r], dtype) for r in cell.results), meta, scratch)


def _shapes(cell: RecurrenceCell, n_rows: int, n_sequences: int, hidden: int, width: int) -> dict[str, tuple[int, int]]:
    """Of results."""
    kept = {name for _, name in cell.states}
    wide = {"gates": 4 * hidden, "into_x": width, "into_state": width}
    return {r: (n_sequences, hidden) if r in kept else (n_rows, wide.get(r, hidden)) for r in cell.results}


def _cells(kind: str, attrs: Attrs) -> tuple[str, RecurrenceCell, RecurrenceCell]:
    """The name of a layer's code, its cell and the cell of its gradient."""
    if kind == "rnn":
        relu = attrs["relu"]
        return f"rnn_{'relu' if relu else 'tanh'}_sequence", rnn(relu), rnn_gradient(relu)
    return (f"{kind}_sequence", *{"lstm": (LSTM, LSTM_GRADIENT), "gru": (GRU, GRU_GRADIENT)}[kind])


def _register(kind: str) -> None:
    @routine(f"{kind}_sequence")
    def bind_forward(types: Inputs, attrs: Attrs) -> Bound | None:
        name, cell, _ = _cells(kind, attrs)
        n_sequences = types[cell.inputs.index("h")].shape[0]
        return _bind(name, cell, types, n_sequences, attrs["backwards"], is_gradient=False)

    @routine(f"{kind}_sequence_gradient")
    def bind_backward(types: Inputs, attrs: Attrs) -> Bound | None:
        name, _, cell = _cells(kind, attrs)
        return _bind(f"{name}_gradient", cell, types, attrs["n_sequences"], not attrs["backwards"], is_gradient=True)


for _kind in ("lstm", "gru", "rnn"):
    _register(_kind)
