"""The pipeline: the last input of the model and what becomes of it, stage by stage, with real numbers.

raw data -> padded and ragged beside each other -> each layer of the model in the order of calls -> loss -> prediction
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import nn, ops
from ..core.context import no_grad
from ..core.storage import Array
from ..core.tensor import Tensor, TensorLike
from ..func.tree import leaves
from ..inspect.tracing import unchanged
from ..nn import Module
from ..nn.recurrent import RNNBase
from ..ragged_tensors.creation import ragged
from ..ragged_tensors.tensor import RaggedTensor
from ..tracing.api import eager
from ..train.modes import evaluating
from .capturing import IterationCapture
from .commands import RefusedCommand
from .values import SIDE

Sample = tuple[tuple[Any, ...], dict[str, Any]]
Stage = dict[str, Any]
MOST_TYPED = 1000  # numbers that a learner may type
MOST_SHOWN = 8  # rows of raw data
MOST_CELLS = 400  # of a padded picture
MOST_BARS = 50


class Asked(NamedTuple):
    """What can be typed, and how it becomes an input of the model."""

    text: str
    example: str
    is_whole: bool
    min: int | None
    max: int | None
    n_numbers: int | None  # None: any number of them
    make: Callable[[list[Any]], Any]

    def as_json(self) -> dict[str, Any]:
        kind = "integers" if self.is_whole else "numbers"
        return {"text": self.text, "example": self.example, "kind": kind, "min": self.min, "max": self.max}


# ---- what the input is


def sequences_of(samples: Sequence[Sample]) -> list[list[Any]]:
    """The rows of the first argument: a list of numbers for each sample, of any length; [] if it is something else."""
    found: list[list[Any]] = []
    for args, _ in samples:
        first = args[0] if args else None
        if isinstance(first, RaggedTensor):
            rows = first.tolist()
        elif isinstance(first, Tensor) and first.ndim in (1, 2):
            rows = first.detach().tolist() if first.ndim == 2 else [first.detach().tolist()]
        elif isinstance(first, list | tuple):
            rows = [list(first)]
        else:
            return []
        if not all(isinstance(row, list) and all(isinstance(x, int | float) for x in row) for row in rows):
            return []
        found += rows
    return found


def asked_of(model: Module, samples: Sequence[Sample]) -> Asked | None:
    """How a typed sequence becomes an input; None where it cannot."""
    if not samples or samples[0][1] or len(samples[0][0]) != 1:
        return None
    first = samples[0][0][0]
    rows = sequences_of(samples[:1])
    if not rows or not rows[0]:
        return None
    is_whole = all(isinstance(x, int) and not isinstance(x, bool) for row in rows for x in row)
    table = next((m for m in model.modules() if isinstance(m, nn.Embedding)), None) if is_whole else None
    low, high = (0, table.num_embeddings - 1) if table is not None else (None, None)
    shown = " ".join(f"{x:g}" for x in rows[0][:12])
    some = "whole numbers" if is_whole else "numbers"
    between = f" from {low} to {high}" if high is not None else ""
    if isinstance(first, Tensor) and not is_whole:
        n = len(rows[0])
        make: Callable[[list[Any]], Any] = _as_tensor(first)
        return Asked(f"{n} {some}", shown, False, None, None, n, make)
    if isinstance(first, RaggedTensor):
        make = _as_ragged
    else:
        make = _as_tensor(first) if isinstance(first, Tensor) else type(first)
    return Asked(f"{some}{between}, any number of them", shown, is_whole, low, high, None, make)


def _as_ragged(numbers: list[Any]) -> Any:
    return ragged([numbers])


def _as_tensor(like: Tensor) -> Callable[[list[Any]], Any]:
    return lambda numbers: ops.tensor(numbers if like.ndim == 1 else [numbers], dtype=like.dtype)


def typed_numbers(text: str, asked: Asked) -> list[Any]:
    """The numbers in a text, checked."""
    words = text.replace(",", " ").split()
    if not words:
        raise RefusedCommand(f"predict: type {asked.text}, such as {asked.example}")
    if len(words) > MOST_TYPED:
        raise RefusedCommand(f"predict: at most {MOST_TYPED} numbers, got {len(words)}")
    numbers = [_number(word, asked) for word in words]
    if asked.n_numbers is not None and len(numbers) != asked.n_numbers:
        raise RefusedCommand(f"predict: the model takes {asked.n_numbers} numbers, got {len(numbers)}")
    return numbers


def _number(word: str, asked: Asked) -> int | float:
    try:
        if len(word) > 40:
            raise ValueError
        value = int(word) if asked.is_whole else float(word)
    except ValueError:
        raise RefusedCommand(f"predict: {word[:40]!r} is no number here; type {asked.text}") from None
    is_outside = asked.min is not None and asked.max is not None and not asked.min <= value <= asked.max
    if is_outside or not math.isfinite(value) or abs(value) >= 2**62:
        raise RefusedCommand(f"predict: {word} is outside; type {asked.text}")
    return value


# ---- stages


def stages_of(
    model: Module, samples: Sequence[Sample], loss: float | None, metrics: dict[str, float] | None, classes: Any
) -> list[Stage]:
    """All stages of the last input. Buffers and the random stream are afterwards as they were."""
    stages: list[Stage] = []
    sequences = sequences_of(samples)
    if sequences:
        stages.append(_raw(sequences))
        if len({len(row) for row in sequences}) > 1 or all(isinstance(x, int) for row in sequences for x in row):
            stages.append(_preprocessing(sequences))
    elif samples:
        stages.append(_stage("data", "Raw data", out=", ".join(_type_text(x) for x in samples[0][0])))
    if not samples:
        return stages
    with unchanged(model), no_grad(), eager():
        found, output = _run(model, samples[0])
    stages += found
    told = [f"loss {loss:.4f}" if loss is not None else "the loss is not known yet"]
    told += [f"{name} {value:.4f}" for name, value in (metrics or {}).items()]
    stages.append(_stage("loss", "Loss and accuracy", text=told))
    stages.append(_prediction(output, classes))
    return stages


def _stage(name: str, title: str, *, given: str = "", out: str = "", **more: Any) -> Stage:
    return {"name": name, "title": title, "in": given, "out": out, "text": [], "tables": [], **more}


def _raw(sequences: list[list[Any]]) -> Stage:
    rows = [[_row_text(row), str(len(row))] for row in sequences[:MOST_SHOWN]]
    lengths = ", ".join(str(len(row)) for row in sequences[:MOST_SHOWN])
    more = f"; {len(sequences) - MOST_SHOWN} more are not shown" if len(sequences) > MOST_SHOWN else ""
    table = {"title": "", "columns": ["sequence", "length"], "rows": rows, "right": [False, True]}
    n = len(sequences)
    return _stage("data", "Raw data", out=f"{n} of length {lengths}{', ...' if more else ''}", tables=[table])


def _row_text(row: list[Any]) -> str:
    shown = " ".join(f"{x:g}" for x in row[:20])
    return shown + (" ..." if len(row) > 20 else "")


def _preprocessing(sequences: list[list[Any]]) -> Stage:
    n_columns = max(map(len, sequences))
    n_cells = len(sequences) * n_columns
    n_wasted = n_cells - sum(map(len, sequences))
    rows = sequences[: max(1, MOST_CELLS // max(n_columns, 1))][:MOST_SHOWN]
    padded = [[*row, *[None] * (n_columns - len(row))][:MOST_CELLS] for row in rows]
    share = (
        f"{n_wasted} of {n_cells} cells ({n_wasted / max(n_cells, 1):.0%}) are wasted by padding, none by ragged rows"
    )
    return _stage(
        "preprocessing",
        "Padded and ragged",
        given=f"{len(sequences)} sequences",
        out=f"padded ({len(sequences)}, {n_columns}), ragged ({len(sequences)}, *)",
        text=[share],
        padded={"rows": padded, "wasted": n_wasted, "cells": n_cells},
        ragged={"rows": [row[:MOST_CELLS] for row in rows]},
    )


def _run(model: Module, sample: Sample) -> tuple[list[Stage], Any]:
    """What the layers directly below the model give, in the order of their first calls."""
    children = list(model.named_children()) or [("", model)]
    calls: dict[str, list[tuple[str, Any]]] = {}
    handles = []
    for name, module in children:

        def note(module: Module, args: Any, output: Any, name: str = name) -> None:
            given = ", ".join(_type_text(x) for x in args if isinstance(x, Tensor | TensorLike | int | float))
            calls.setdefault(name, []).append((given, output))

        handles.append(module.register_forward_hook(note))
    try:
        output = model(*sample[0], **sample[1])
    finally:
        for handle in handles:
            handle.remove()
    kinds = dict(children)
    last = list(calls)[-1] if calls else ""
    return [_layer(name, kinds[name], found, name == last) for name, found in calls.items()], output


def _layer(name: str, module: Module, calls: list[tuple[str, Any]], is_last: bool) -> Stage:
    kind = type(module).__name__
    is_recurrent = isinstance(module, RNNBase) or "Cell" in kind
    role = (
        "embedding"
        if isinstance(module, nn.Embedding | nn.EmbeddingBag)
        else "recurrent"
        if is_recurrent
        else "scores"
        if is_last
        else "layer"
    )
    arrays = [array for _, output in calls if (array := _array(output)) is not None]
    times = f" x {len(calls)}" if len(calls) > 1 else ""
    stage = _stage(
        role, f"{name}: {kind}{times}" if name else kind, given=calls[0][0], out=_type_text(_first(calls[-1][1]))
    )
    if arrays:
        many = len(arrays) > 1 and all(a.size == arrays[0].size for a in arrays)
        matrix = np.stack([a.reshape(-1) for a in arrays]) if many else arrays[0].reshape(-1, arrays[0].shape[-1] or 1)
        shown = matrix[:SIDE, :SIDE].astype(np.float64)
        stage["heat"] = {
            "label": f"{'a row for each call' if many else 'its output'}, {matrix.shape[0]} x {matrix.shape[1]}",
            "rows": shown.shape[0],
            "columns": shown.shape[1],
            "values": [[float(f"{x:.5g}") for x in row] for row in shown],
            "row_labels": [str(i + 1) for i in range(shown.shape[0])],
        }
    return stage


def _first(output: Any) -> Any:
    return next((t for t in leaves(output) if isinstance(t, Tensor | TensorLike)), output)


def _array(output: Any) -> Array | None:
    first = _first(output)
    if isinstance(first, TensorLike):
        first = first._flat
    if not isinstance(first, Tensor) or not first.numel():
        return None
    array = np.asarray(first.detach()._values())
    return array.reshape(1) if array.ndim == 0 else array


def _type_text(x: Any) -> str:
    if isinstance(x, Tensor | TensorLike):
        kind = "ragged " if isinstance(x, TensorLike) else ""
        dtype = x._flat.dtype if isinstance(x, TensorLike) else x.dtype
        return f"{kind}{str(dtype).rpartition('.')[2]} ({', '.join(map(str, x.shape))})"
    return f"{type(x).__name__} of {len(x)}" if isinstance(x, list | tuple) else str(x)[:40]


def _prediction(output: Any, classes: Sequence[str] | None) -> Stage:
    bars, text = bars_of(output, classes)
    return _stage("prediction", "One prediction", text=[text] if text else [], bars=bars)


def bars_of(output: Any, classes: Sequence[str] | None) -> tuple[list[dict[str, Any]], str]:
    """The output of the first sample: scores as shares of one, and a sentence."""
    array = _array(output)
    if array is None or array.dtype.kind != "f":
        return [], ""
    scores = array.reshape(-1, array.shape[-1])[0].astype(np.float64)
    if len(scores) < 2 or len(scores) > MOST_BARS or not np.isfinite(scores).all():
        return [], f"output {' '.join(f'{x:.4g}' for x in scores[:12])}"
    powers = np.exp(scores - scores.max())
    shares = powers / powers.sum()
    names = [str(name) for name in classes] if classes and len(classes) == len(scores) else None
    labels = names or [f"class {i}" for i in range(len(scores))]
    best = int(shares.argmax())
    bars = [
        {"label": label, "share": float(share), "text": f"{score:.2f}"}
        for label, share, score in zip(labels, shares, scores, strict=True)
    ]
    return bars, f"class {best}{f' ({labels[best]})' if names else ''}, {shares[best]:.0%} sure"


# ---- predicting


def predict(
    model: Module, samples: Sequence[Sample], text: str, classes: Any
) -> tuple[list[Any], IterationCapture, dict[str, Any]]:
    """Run the model on what was typed: the numbers, the graph of that run, and what it predicts."""
    asked = asked_of(model, samples)
    if asked is None:
        raise RefusedCommand("predict: this model takes no single sequence of numbers, so none can be typed")
    numbers = typed_numbers(text, asked)
    sample: Sample = ((asked.make(numbers),), {})
    capture = IterationCapture({"": model})
    try:
        with unchanged(model), evaluating(model):
            capture.start()
            output = model(*sample[0])
            capture.stop()
            stages = stages_of(model, [sample], None, None, classes)
    except Exception as error:
        raise RefusedCommand(f"predict: {type(error).__name__}: {error}") from error
    finally:
        capture.stop()
    bars, said = bars_of(output, classes)
    shown = [stage for stage in stages if stage["name"] != "loss"]
    return numbers, capture, {"text": said, "bars": bars, "stages": shown}
