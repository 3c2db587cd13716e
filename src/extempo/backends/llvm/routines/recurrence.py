"""Routines of recurrent layers over packed rows: LSTM, GRU and plain RNN, and their gradients, float32 and float64.

A call is bound by the numbers of rows, steps and sequences; how long each sequence is, it reads when it runs. Blocks of
sequences are chunks for threads, and a result never depends on how they are shared. A step's product is a chain of
fused multiply-adds in the order of k, so its bits do not depend on which sequences are computed together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.types import InputType, TensorType
from ..ir.builder import IRModule
from .gemm import Gemm, gemm_of, plan
from .gemm_plan import CHUNK_PRODUCTS, GROUP_BYTES, MAX_CHUNKS
from .gemm_tiles import MAX_ROWS
from .products import ELEMENTS, usable
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
from .routine import Bound, build, routine

NEAR_BYTES = 1 << 19  # of a packed weight that stays in a second-level cache: it may be read again for every tile
MANY_ROWS = 8 * MAX_ROWS  # of a block that a larger weight is read for at once


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _numbers(gemm: Gemm, n_steps: int, n_rows: int, n_sequences: int, hidden: int, width: int) -> dict[str, int]:
    """NUMBERS, but for those that depend on the direction."""
    t = gemm.t
    weight_bytes = max(_up(width, t.columns) * hidden, _up(hidden, t.columns) * width) * t.size
    most = MAX_ROWS if weight_bytes <= NEAR_BYTES else MANY_ROWS
    n_blocks = -(-n_sequences // most)
    n_chunks = max(1, min(n_blocks, MAX_CHUNKS, n_rows * hidden * width // CHUNK_PRODUCTS))
    chunk_blocks = -(-n_blocks // n_chunks)
    strip_row = _up(width, t.columns) * t.size
    zeros_at = _up(weight_bytes, 64)
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
        "strips_at": zeros_at + _up(width * t.size, 64),
        "strip_row": strip_row,
        "strip_bytes": _up(strip_row * -(-n_sequences // n_blocks), 64),
    }


def _bind(
    name: str, cell: RecurrenceCell, types: tuple[InputType, ...], n_sequences: int, descending: bool, is_gradient: bool
) -> Bound | None:
    given = {n: t for n, t in zip(cell.inputs, types, strict=True) if isinstance(t, TensorType)}
    weight, sizes, dtype = given["weight"], given["sizes"], given["weight"].dtype
    n_rows = next(given[n] for n in ("x", "gates", "rows") if n in given).shape[0]
    width, hidden = weight.shape
    n_features = given["x"].shape[1] if "x" in given else hidden
    element = ELEMENTS.get(dtype._name)
    same = all(t.dtype is dtype for n, t in given.items() if n != "sizes")
    if element is None or not same or not usable() or 0 in (n_sequences, hidden, n_rows, n_features):
        return None
    gemm = gemm_of(element)
    numbers = _numbers(gemm, sizes.shape[0], n_rows, n_sequences, hidden, width)
    k = width if is_gradient else hidden
    numbers["group"] = max(1, GROUP_BYTES // (k * gemm.t.sliver_step)) * gemm.t.columns
    numbers["n_features"], numbers["descending"] = n_features, int(descending)
    full_name = gemm.symbol(name)
    write: Callable[[IRModule, str, Gemm, RecurrenceCell], None] = write_backward if is_gradient else write_forward
    address = build(full_name, lambda module: write(module, full_name, gemm, cell))
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


@routine("lstm_sequence")
def bind_lstm(types: tuple[InputType, ...], attrs: dict[str, Any]) -> Bound | None:
    return _forward("lstm_sequence", LSTM, types, attrs)


@routine("gru_sequence")
def bind_gru(types: tuple[InputType, ...], attrs: dict[str, Any]) -> Bound | None:
    return _forward("gru_sequence", GRU, types, attrs)


@routine("rnn_sequence")
def bind_rnn(types: tuple[InputType, ...], attrs: dict[str, Any]) -> Bound | None:
    return _forward("rnn_relu_sequence" if attrs["relu"] else "rnn_tanh_sequence", rnn(attrs["relu"]), types, attrs)


def _forward(name: str, cell: RecurrenceCell, types: tuple[InputType, ...], attrs: dict[str, Any]) -> Bound | None:
    h = types[cell.inputs.index("h")]
    assert isinstance(h, TensorType)
    return _bind(name, cell, types, h.shape[0], attrs["backwards"], is_gradient=False)


@routine("lstm_sequence_gradient")
def bind_lstm_gradient(types: tuple[InputType, ...], attrs: dict[str, Any]) -> Bound | None:
    return _backward("lstm_sequence_gradient", LSTM_GRADIENT, types, attrs)


@routine("gru_sequence_gradient")
def bind_gru_gradient(types: tuple[InputType, ...], attrs: dict[str, Any]) -> Bound | None:
    return _backward("gru_sequence_gradient", GRU_GRADIENT, types, attrs)


@routine("rnn_sequence_gradient")
def bind_rnn_gradient(types: tuple[InputType, ...], attrs: dict[str, Any]) -> Bound | None:
    kind = "relu" if attrs["relu"] else "tanh"
    return _backward(f"rnn_{kind}_sequence_gradient", rnn_gradient(attrs["relu"]), types, attrs)


def _backward(name: str, cell: RecurrenceCell, types: tuple[InputType, ...], attrs: dict[str, Any]) -> Bound | None:
    return _bind(name, cell, types, attrs["n_sequences"], not attrs["backwards"], is_gradient=True)
