"""The node tests of the installed onnx package, and that every operator of opset 21 is there or refused by name."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import extempo as ex
from extempo.core.tensor import from_array
from extempo.exporting.onnx_import.operators import OPERATORS, REFUSED

onnx = pytest.importorskip("onnx", reason="the tests are those of onnx: pip install -e '.[onnx]'")
from onnx import defs, helper  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[3]))  # where scripts/ is
from scripts import onnx_node_tests  # noqa: E402

LEAST = 0.9
EXTREMES = (0, 1, -1, 2, -2, 100, -100, 2**31 - 1, 2**31, 2**62, -(2**63), 2**63 - 1)
PAGE = Path(__file__).parents[3] / "docs" / "from_onnx.md"


@pytest.fixture(scope="module")
def outcomes():
    return [onnx_node_tests.run(case) for case in onnx_node_tests.counted_cases()]


def test_nine_of_ten_node_tests_pass(outcomes):
    failed = [o for o in outcomes if o.reason]
    share = 1 - len(failed) / len(outcomes)
    assert share >= LEAST, f"{share:.1%} of {len(outcomes)} pass:\n" + "\n".join(
        f"{o.test}: {o.reason}" for o in failed
    )


def test_what_does_not_run_is_refused_by_name(outcomes):
    """A test fails by an error of `from_onnx`, by a number that nobody can compute, or not at all."""
    unnamed = [o for o in outcomes if o.reason and not o.reason.startswith(("from_onnx: ", "Not equal to tolerance"))]
    assert unnamed == []


def test_the_table_of_the_docs_is_what_the_command_prints(outcomes):
    text = PAGE.read_text()
    version = re.search(r"onnx (\d+\.\d+\.\d+): ", text)
    assert version is not None
    if version[1] != onnx.__version__:
        pytest.skip(f"the page counts the tests of onnx {version[1]}")
    assert onnx_node_tests.report(outcomes) in text, "python scripts/onnx_node_tests.py --write"


@pytest.mark.slow
def test_mutated_nodes_and_inputs_give_results_or_errors_of_ours():
    """One attribute, or one number or shape of the inputs, of every node test is changed."""
    drawn = random.Random(0)
    for case in onnx_node_tests.counted_cases():
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        for declared in model.graph.input:
            declared.type.tensor_type.ClearField("shape")
        arrays = [onnx_node_tests.array_of(x) for x in onnx_node_tests.data_of(case)[0][0] if x is not None]
        attributes = [a for node in model.graph.node for a in node.attribute if a.type in (a.INT, a.INTS)]
        if attributes and drawn.random() < 0.5:
            a = drawn.choice(attributes)
            if a.type == a.INT:
                a.i = drawn.choice(EXTREMES)
            elif a.ints:
                a.ints[drawn.randrange(len(a.ints))] = drawn.choice(EXTREMES)
        elif arrays:
            change(arrays, drawn)
        message = ""
        try:
            ex.from_onnx(model.SerializeToString())(*map(from_array, arrays))
        except ex.errors.ExtempoError as error:
            message = str(error)
        assert not message or "from_onnx: " in message or "OnnxModule: " in message, case.name


def change(arrays, drawn):
    i = drawn.randrange(len(arrays))
    x = arrays[i]
    if drawn.random() < 0.5 and x.size and x.dtype == np.int64:
        x.reshape(-1)[drawn.randrange(x.size)] = drawn.choice(EXTREMES)
    else:
        arrays[i] = drawn.choice((x.reshape(-1), x[None], x[:0] if x.ndim else x)).copy()


def test_every_operator_of_opset_21_is_there_or_refused():
    names = {s.name for s in defs.get_all_schemas_with_history() if s.domain == "" and s.since_version <= 21}
    assert names - set(OPERATORS) - set(REFUSED) == {"Constant"}  # which is no step: see graphs


def test_attributes_are_those_of_the_format():
    known = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            known.setdefault(schema.name, set()).update(schema.attributes)
    made = {name: set(op.attributes) - known[name] for name, op in OPERATORS.items() if name in known}
    assert {name: extra for name, extra in made.items() if extra} == {"Scatter": {"reduction"}}


@pytest.mark.parametrize("op", sorted(REFUSED))
def test_a_refusal_names_the_operator_and_what_to_do(model_of, op):
    data = model_of([helper.make_node(op, ["x"], ["y"], name="n7")], {"x": [2]}, ["y"])
    with pytest.raises(ex.errors.UnsupportedError, match=rf"the operator {op} \('n7'\) is not supported: .*;|,"):
        ex.from_onnx(data)
