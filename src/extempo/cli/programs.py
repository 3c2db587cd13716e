"""`extempo show`, `predict` and `quantize`: the text of a saved program, its results for arrays, a smaller file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from extempo.core.tensor import Tensor, from_array
from extempo.exporting.calls import rebuilt
from extempo.exporting.files import load_program, program_text_of
from extempo.exporting.program import Program
from extempo.func.tree import leaves
from extempo.ragged_tensors.tensor import RaggedTensor

if TYPE_CHECKING:
    from extempo.exporting.quantizing import QuantizationReport


class Mistake(Exception):
    """What was asked for cannot be done; the message says why."""


def shown(path: str) -> str:
    """The text of the program in a file."""
    load_program(path)  # text that does not make a program is an error here, too
    return program_text_of(path).rstrip("\n")


def drawn(path: str, picture: str) -> str:
    """Draw the program in a file to another one; what was written."""
    from extempo.inspect import draw

    return f"{draw(load_program(path), title=os.path.basename(path)).save(picture)} has the picture"


def described(path: str) -> str:
    """Inputs, outputs, sizes and weights as JSON."""
    program = load_program(path)
    names = [*program.outputs, *program.state]
    facts = {
        "inputs": {spec.name: str(spec.type) for spec in program.inputs},
        "outputs": {name: str(node.type) for name, node in zip(names, program.graph.outputs, strict=True)},
        "sizes": {name: [dim.min, None if dim.max == float("inf") else dim.max] for name, dim in program.dims.items()},
        "weights": {name: str(t._type) for name, t in program.weights.items()},
        "nodes": len(program.graph),
    }
    return json.dumps(facts, indent=2)


def predict(path: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[tuple[str, Any]]:
    """Run the program in a file: `inputs` and `outputs` are `name=file.npy`; the results that no file was named for."""
    program = load_program(path)
    tensors = _inputs(program, inputs)
    made = program(**{name: rebuilt(nesting, tensors, str) for name, nesting in program.arguments.items()})
    values = dict(zip([*program.outputs, *program.state], _tensors(made), strict=True))
    for text in outputs:
        name, _, file = text.rpartition("=")
        name = name or program.outputs[0]
        if name not in values:
            raise Mistake(f"there is no output {name}; the outputs are {', '.join(values)}")
        np.save(file, values.pop(name).numpy())
    return list(values.items())


def quantize(path: str, out: str, kind: str, dynamic: bool, inputs: Sequence[str]) -> QuantizationReport:
    """Write the program in a file, quantised, to another one; the report, with times."""
    program = load_program(path)
    examples = []
    if inputs:
        tensors = _inputs(program, inputs)
        examples.append({name: rebuilt(nesting, tensors, str) for name, nesting in program.arguments.items()})
    made = program.quantize(kind, *examples, dynamic=dynamic)
    made.save(out)
    assert made.report is not None
    return made.report.measure()


def _inputs(program: Program, inputs: Sequence[str]) -> list[Tensor]:
    """The input tensors of a call, from `name=file.npy` for each."""
    arrays = dict(_named_array(text, program) for text in inputs)
    missing = [spec.name for spec in program.inputs if spec.name not in arrays]
    if missing:
        raise Mistake(f"the program needs the input {missing[0]}: --input {missing[0]}=FILE.npy")
    return [_tensor(arrays[spec.name], spec) for spec in program.inputs]


def _tensors(tree: Any) -> list[Tensor]:
    """Those of results; of a ragged one its values and offsets."""
    found: list[Tensor] = []
    for x in leaves(tree):
        found += [x.values(), x.offsets()] if isinstance(x, RaggedTensor) else [x] if isinstance(x, Tensor) else []
    return found


def _named_array(text: str, program: Program) -> tuple[str, Any]:
    name, _, file = text.rpartition("=")
    names = [spec.name for spec in program.inputs]
    if not name and len(names) == 1:
        name = names[0]
    if name not in names:
        raise Mistake(f"--input {text}: write NAME=FILE.npy; the inputs are {', '.join(map(str, program.inputs))}")
    try:
        return name, np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Mistake(f"--input {text}: {file} is no file of numpy.save: {error}") from None


def _tensor(array: Any, spec: Any) -> Tensor:
    """An array as the program's input: of the same kind of number it is converted."""
    if not isinstance(array, np.ndarray):
        raise Mistake(f"{spec.name}: expected a file of one array, numpy.save(file, x)")
    wanted = spec.type.dtype.numpy
    if array.dtype != wanted and not np.can_cast(array.dtype, wanted, "same_kind"):
        raise Mistake(f"{spec.name}: the program takes {spec.type}, and the file has {array.dtype}")
    return from_array(np.array(array, wanted, order="C"))
