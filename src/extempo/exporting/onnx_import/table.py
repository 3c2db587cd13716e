"""The table of ONNX operators: `@operator("Name")` registers the function that computes one.

Its signature is the whole description. Positional parameters are the node's inputs: a `Tensor` comes as it is, `Fixed`
is a tensor that is never trained (running statistics, bounds), `Ints` and `Floats` are read as Python numbers; a
default means that the input may be absent. Keyword-only parameters are attributes with the specification's defaults
(a trailing underscore tells one from an input of the same name), except those in `FROM_RUN`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...core.tensor import Tensor
from ...core.types import dtype

Ints: TypeAlias = list[int]
Floats: TypeAlias = list[float]
Strings: TypeAlias = list[str]
Dtype: TypeAlias = dtype  # an attribute that is a number of the format
Fixed: TypeAlias = Tensor
Value: TypeAlias = Tensor | np.ndarray[Any, Any]  # as it is: an array where it was computed from sizes
Results: TypeAlias = Tensor | tuple[Any, ...]

TENSOR_KINDS = ("Tensor", "Fixed", "Value")
INPUT_KINDS = (*TENSOR_KINDS, "Ints", "Floats")
# What a function may ask for beside inputs and attributes.
FROM_RUN = {
    "opset": "the version of the operator set that the file uses",
    "n_outputs": "how many results the node has",
    "training": "whether the module is in training mode",
    "scope": "the values that a body reads from outside",
}


class Attribute(NamedTuple):
    """An attribute: the keyword that it is passed as, its annotation, and whether the file must have it."""

    keyword: str
    kind: str
    is_required: bool


class Operator(NamedTuple):
    """A registered operator, taken from the signature of its function."""

    name: str
    function: Callable[..., Results]
    inputs: tuple[str, ...]  # their kinds
    n_required: int
    further: str  # the kind of any number of further inputs, "" for none
    attributes: dict[str, Attribute]
    from_run: tuple[str, ...]


OPERATORS: dict[str, Operator] = {}


def operator(*names: str) -> Callable[[Callable[..., Results]], Callable[..., Results]]:
    """Register a function as the operators of these names."""

    def register(function: Callable[..., Results]) -> Callable[..., Results]:
        for name in names:
            add(name, function)
        return function

    return register


def add(name: str, function: Callable[..., Results]) -> None:
    """Register a function; its annotations are text, since every module here postpones them."""
    inputs: list[str] = []
    attributes: dict[str, Attribute] = {}
    from_run: list[str] = []
    n_required, further = 0, ""
    for p in inspect.signature(function).parameters.values():
        kind = str(p.annotation).removesuffix(" | None")
        if p.kind is p.KEYWORD_ONLY:
            if p.name in FROM_RUN:
                from_run.append(p.name)
            else:
                attributes[p.name.removesuffix("_")] = Attribute(p.name, kind, p.default is p.empty)
            continue
        assert kind in INPUT_KINDS, f"{name}: {p.name} is annotated as {kind}"
        if p.kind is p.VAR_POSITIONAL:
            further = kind
        else:
            inputs.append(kind)
            n_required += p.default is p.empty
    OPERATORS[name] = Operator(name, function, tuple(inputs), n_required, further, attributes, tuple(from_run))


_SEQUENCES = "sequences of tensors are not part of Extempo; stack or concatenate in the model, then export it again"
_STRINGS = "tensors of strings are not part of Extempo; prepare text before the model, then export the rest of it"

# Operators of ai.onnx that are refused, with what to do.
REFUSED = {
    **dict.fromkeys(
        (
            *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength"),
            *("SequenceMap", "SplitToSequence", "ConcatFromSequence"),
        ),
        _SEQUENCES,
    ),
    **dict.fromkeys(
        ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer"),
        _STRINGS,
    ),
    "Optional": "optional values are not part of Extempo; export the model with that branch decided",
    "ImageDecoder": "decode images before the model, and give it their pixels",
}
