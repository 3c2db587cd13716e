"""Programs in files: one safetensors file of `ex.save`, with the program's text and its weights by name.

Nothing of a file is executed when it is read: it is checked against its checksums, its text becomes a graph of
registered ops, and its weights become tensors.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..errors import UnsupportedError
from ..serialization.files import FileFormatError
from ..serialization.loading import load
from .program import Program
from .storage import stored_weights
from .text import parse_program, program_text

__all__ = ["load_program", "program_text_of"]

FORMAT = "extempo program"


def save_program(program: Program, f: Any) -> None:
    """Write a program to a path or a binary file."""
    from ..serialization.saving import save  # programs that are only read do without it

    weights = stored_weights(program.weights, program.storage)
    save({"format": FORMAT, "program": program_text(program), "weights": weights}, f)


def load_program(f: Any) -> Program:
    """The program that `program.save(f)` wrote, from a path or a binary file. Nothing in the file is executed.

    >>> import io
    >>> file = io.BytesIO()
    >>> ex.program(lambda x: x * 2, ex.ones(3), dynamic={"x": {0: "n"}}).save(file)
    >>> position = file.seek(0)
    >>> ex.load_program(file)(ex.ones(2))
    tensor([2., 2.])
    """
    text, weights = _contents(f)
    return parse_program(text, weights)


def program_text_of(f: Any) -> str:
    """The text of the program in a file."""
    return _contents(f)[0]


def _contents(f: Any) -> tuple[str, dict[str, Tensor]]:
    try:
        found = load(f, weights_only=True)
    except UnsupportedError as error:
        raise FileFormatError(f"load_program: it is no file of program.save: {error}") from None
    except FileFormatError as error:
        raise FileFormatError(f"load_program: {str(error).removeprefix('load: ')}") from None
    name = f if isinstance(f, str) else "the file"
    if type(found) is not dict or found.get("format") != FORMAT:
        raise FileFormatError(f"load_program: {name} was not written by program.save; ex.load reads other files")
    text, weights = found.get("program"), found.get("weights")
    if type(text) is not str or type(weights) is not dict or not all(type(k) is str for k in weights):
        raise FileFormatError(f"load_program: {name} has no program, or no weights")
    return text, weights
