"""Runs the node tests of the installed `onnx` package through `ex.from_onnx`, and prints the share that passes.

    python scripts/onnx_node_tests.py              the share of each operator
    python scripts/onnx_node_tests.py --failures   what does not pass, each with its reason
    python scripts/onnx_node_tests.py --write      the shares into docs/from_onnx.md

Counted are the tests of operators that opset 21 has (domain ai.onnx), without strings, sequences and optional values,
that have an input of float32, int64 or bool, or no input. Results must have the type, the shape and, within the
tolerance of the test, the values that it asks for; of random operators, type and shape.
"""

from __future__ import annotations

import argparse
import dataclasses
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import defs, numpy_helper

import extempo as ex
from extempo.core.tensor import from_array

PAGE = Path(__file__).parents[1] / "docs" / "from_onnx.md"
BEGIN, END = "<!-- shares: python scripts/onnx_node_tests.py --write -->", "<!-- end of shares -->"
OPSET = 21
FLOAT, INT64, STRING, BOOL = 1, 7, 8, 9
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


class Outcome(NamedTuple):
    """What became of one test: the operator that it is for, and why it failed, or ""."""

    test: str
    operator: str
    reason: str


def counted_cases() -> Iterator[Any]:
    """The tests that count, as onnx has them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests are computed here by NumPy, which warns of overflow
        from onnx.backend.test.loader import load_model_tests

        cases = load_model_tests(kind="node")
    known = {s.name for s in defs.get_all_schemas_with_history() if s.domain == "" and s.since_version <= OPSET}
    for case in cases:
        if case.model is None:
            case = dataclasses.replace(case, model=onnx.load(Path(case.model_dir) / "model.onnx"))
        graph = case.model.graph
        if any(n.domain not in ("", "ai.onnx") or n.op_type not in known for n in graph.node):
            continue
        values = [*graph.input, *graph.output]
        if any(v.type.WhichOneof("value") != "tensor_type" or v.type.tensor_type.elem_type == STRING for v in values):
            continue
        types = {v.type.tensor_type.elem_type for v in graph.input}
        if not types or types & {FLOAT, INT64, BOOL}:
            yield case


def operator_of(case: Any) -> str:
    """The operator of a test; the expansion of one into others is a row of its own."""
    kinds = [node.op_type for node in case.model.graph.node]
    return kinds[0] if len(kinds) == 1 else "(several nodes)"


def data_of(case: Any) -> list[tuple[list[Any], list[Any]]]:
    """Inputs and expected outputs; older versions of onnx keep them in files."""
    if case.data_sets is not None:
        return [(list(inputs), list(outputs)) for inputs, outputs in case.data_sets]
    found = []
    for directory in sorted(Path(case.model_dir).glob("test_data_set_*")):
        each = []
        for kind in ("input", "output"):
            files = sorted(directory.glob(f"{kind}_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
            each.append([onnx.load_tensor(file) for file in files])
        found.append((each[0], each[1]))
    return found


def run(case: Any) -> Outcome:
    """One test, on all its data."""
    operator = operator_of(case)
    try:
        module = ex.from_onnx(case.model.SerializeToString())
        for inputs, expected in data_of(case):
            given = [from_array(array_of(x)) for x in inputs if x is not None]
            results = module(*given)
            results = results if isinstance(results, tuple) else (results,)
            is_random = any(node.op_type in RANDOM for node in case.model.graph.node)
            for result, wanted in zip(results, expected, strict=True):
                compare(result.detach().numpy(), array_of(wanted), case.rtol, case.atol, is_random)
    except (ex.errors.ExtempoError, AssertionError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return Outcome(case.name, operator, " ".join(lines[:3])[:240] or type(error).__name__)
    return Outcome(case.name, operator, "")


def array_of(value: Any) -> Any:
    """The array of a tensor of the format, or of what NumPy makes one of."""
    return numpy_helper.to_array(value).copy() if isinstance(value, onnx.TensorProto) else np.array(value)


def compare(result: Any, wanted: Any, rtol: float, atol: float, is_random: bool) -> None:
    """Type, shape and values."""
    assert result.dtype == wanted.dtype, f"the type is {result.dtype}, expected {wanted.dtype}"
    assert result.shape == wanted.shape, f"the shape is {result.shape}, expected {wanted.shape}"
    if not is_random:
        wide = np.float64 if wanted.dtype.kind not in "biu" else wanted.dtype
        np.testing.assert_allclose(result.astype(wide), wanted.astype(wide), rtol, atol)


def table(outcomes: list[Outcome]) -> str:
    """The share of each operator as a Markdown table, and the whole."""
    rows: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        rows[outcome.operator].append(outcome)
    lines = ["| operator | pass | of |", "|---|---|---|"]
    for operator in sorted(rows):
        passed = sum(not o.reason for o in rows[operator])
        lines.append(f"| {operator} | {passed} | {len(rows[operator])} |")
    return "\n".join(lines)


def report(outcomes: list[Outcome]) -> str:
    """What the docs show: the whole, then the table."""
    passed = sum(not o.reason for o in outcomes)
    whole = f"onnx {onnx.__version__}: {passed} of {len(outcomes)} tests pass, {passed / max(len(outcomes), 1):.1%}"
    return f"{whole}\n\n{table(outcomes)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failures", action="store_true", help="print what does not pass, with reasons")
    parser.add_argument("--only", default="", help="tests whose names contain this")
    parser.add_argument("--write", action="store_true", help="put the shares into docs/from_onnx.md")
    options = parser.parse_args()
    outcomes = [run(case) for case in counted_cases() if options.only in case.name]
    if options.failures:
        print("\n".join(f"{o.test}: {o.reason}" for o in outcomes if o.reason))
    elif options.write:
        before, begin, rest = PAGE.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{begin}\n\n{report(outcomes)}\n\n{END}{after}")
    else:
        print(report(outcomes))


if __name__ == "__main__":
    main()
