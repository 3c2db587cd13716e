"""Write the table of docs/onnx.md: every op of the registry with its ONNX form, or with the reason why it has none.

The operators are those of the models that the op's own samples give, so the table is what the exporter does.

python scripts/make_onnx_docs.py            write the file
python scripts/make_onnx_docs.py --check    exit with 1 if it is out of date
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import extempo as ex
from extempo.core.op import GRADIENTS_ONLY, REGISTRY, Decomposed, Op, Refuse
from extempo.core.tensor import from_array
from extempo.dispatch.dispatcher import apply
from extempo.ops.draws import RANDOM

PAGE = Path(__file__).parents[1] / "docs" / "onnx.md"
MARK = "<!-- made by scripts/make_onnx_docs.py from the registry -->\n"
MOST_OPERATORS = 6  # that a row names
# Nodes that stand for no computation of their own.
NO_COMPUTATION = ("leaf", "once_differentiable", "pick", "traced")
HOLDING_GRAPHS = {"cond": "If", "while_loop": "Loop", "scan": "Loop", "map": "Loop"}
N_RESULTS = {"lstm_sequence": 3, "gru_sequence": 2, "rnn_sequence": 2}  # before those that only gradients read


def operators(op: type[Op]) -> list[str]:
    """The ONNX operators of an op, on the first sample that has tensors, in the order of the model."""
    if op.name in HOLDING_GRAPHS:
        return [HOLDING_GRAPHS[op.name]]
    if not callable(op.samples):
        return []
    for sample in op.samples(np.random.default_rng(0)):
        arrays = [from_array(np.asarray(x, _single(x))) for x in sample.inputs if isinstance(x, np.ndarray)]
        if arrays:
            return _kinds(_exported(op, sample, arrays).graph)
    return []


def _single(x: Any) -> Any:
    return np.float32 if x.dtype == np.float64 else x.dtype


def _exported(op: type[Op], sample: Any, arrays: list[Any]) -> Any:
    def call(*tensors: Any) -> Any:
        given = iter(tensors)
        made = apply(op, tuple(next(given) if isinstance(x, np.ndarray) else x for x in sample.inputs), sample.attrs)
        return made[: N_RESULTS[op.name]] if op.name in N_RESULTS else made

    file = io.BytesIO()
    ex.program(call, tuple(arrays), check=False).to_onnx(file)
    return onnx.load_model_from_string(file.getvalue())


def _kinds(graph: Any) -> list[str]:
    found: dict[str, None] = {}
    for node in graph.node:
        if node.op_type not in ("Constant", "Identity"):
            found[node.op_type] = None
        for attribute in node.attribute:
            found.update(dict.fromkeys(_kinds(attribute.g)))
    return list(found)


def how(op: type[Op]) -> str:
    """Where the form comes from."""
    if isinstance(op.onnx, Decomposed):
        return "in other ops"
    return {"elementwise": "by its elements", "kernel": "by its kernel", "control": "graphs"}.get(op.onnx, "its own")


def row(op: type[Op]) -> str:
    names = operators(op)
    told = ", ".join(names[:MOST_OPERATORS]) + (f" and {len(names) - MOST_OPERATORS} more" * (len(names) > 6))
    return f"| `{op.name}` | {how(op)} | {told or '-'} |"


def table() -> str:
    """The part of the page that is made."""
    ops = [op for name, op in sorted(REGISTRY.items()) if name not in NO_COMPUTATION]
    random = [op for op in ops if op.onnx is RANDOM]
    gradients = [op for op in ops if op.onnx is GRADIENTS_ONLY]
    counted = [op for op in ops if op not in random and op not in gradients]
    mapped = [op for op in counted if not isinstance(op.onnx, Refuse)]
    refused = [op for op in counted if isinstance(op.onnx, Refuse)]
    lines = [
        f"Of {len(counted)} ops {len(mapped)} have an ONNX form: {100 * len(mapped) / len(counted):.1f}%.",
        f"Not counted are {len(random)} that draw random numbers and {len(gradients)} that run in gradients only.",
        "",
        "| op | form | operators, in its first sample |",
        "|---|---|---|",
        *map(row, mapped),
        "",
        "Without a form:",
        "",
        "| op | reason |",
        "|---|---|",
        *(f"| `{op.name}` | {op.onnx.why} |" for op in refused),
        "",
        f"Random: {', '.join(f'`{op.name}`' for op in random)}.",
        "",
        f"In gradients only: {', '.join(f'`{op.name}`' for op in gradients)}.",
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with its table made anew; what stands before and after the marks stays."""
    before, _, after = PAGE.read_text().split(MARK)
    return f"{before}{MARK}{table()}{MARK}{after}"


def main() -> None:
    text = page()
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text() == text else f"{PAGE.name} is out of date; run scripts/make_onnx_docs.py")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
