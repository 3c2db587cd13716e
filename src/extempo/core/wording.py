"""Words for messages: counts that agree with their noun, the name that was probably meant, which side to convert."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from .types import bfloat16, dtype, float16, float32, float64, int32, int64, uint8

_CONVERSIONS = {
    float32: ".float()",
    float64: ".double()",
    float16: ".half()",
    bfloat16: ".bfloat16()",
    int64: ".long()",
    int32: ".int()",
}

FORGOTTEN_RETURN = "got None where a tensor was expected; did a forward before it forget to return its result?"


def counted(n: int, noun: str, plural: str = "") -> str:
    """A number and its noun: "1 epoch", "2 epochs", "1,000 entries". `plural`: where it is not the noun and an s.

    >>> from extempo.core.wording import counted
    >>> counted(1, "batch", "batches"), counted(2, "step")
    ('1 batch', '2 steps')
    """
    number = f"{n:,}" if isinstance(n, int) else str(n)  # a size may be a symbol
    return f"{number} {noun if n == 1 else plural or noun + 's'}"


def in_place_of(*values: object) -> str:
    """The end of a message about what is no tensor: how to make one, or who is to be asked instead.

    >>> from extempo.core.wording import in_place_of
    >>> in_place_of([1, 2])
    'make tensors with ex.tensor(...)'
    """
    for value in values:
        if hasattr(value, "__torch_function__"):
            return f"Extempo asks no class for its __torch_function__: call {type(value).__name__}'s own method"
    return "make tensors with ex.tensor(...)"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message: "; did you mean 'valid_loss'?" if one of the names is near, else nothing.

    >>> from extempo.core.wording import did_you_mean
    >>> did_you_mean("val_loss", ["train_loss", "valid_loss"])
    "; did you mean 'valid_loss'?"
    """
    near = get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def converted_to(d: dtype) -> str:
    """How a tensor gets a dtype: ".float()"."""
    return _CONVERSIONS.get(d, f".to({str(d).replace('extempo', 'ex')})")


def input_misfit(op: str, given: dtype, name: str, own: dtype) -> str:
    """The error for an input whose dtype is not that of a weight: both, which side to convert, and how."""
    hint = f"convert the input: x{converted_to(own)}"
    if given is uint8:
        hint += ", or for pixels x.float() / 255"
    elif given.is_floating_point:
        hint += f", or the whole model: model{converted_to(given)}"
    return f"{op}: input is {given} but {name} is {own}; {hint}"


def pair_misfit(op: str, first: dtype, second: dtype) -> str:
    """The error for two tensors that must have one dtype: whole numbers follow floats, else either may follow."""
    ways = []
    if second.is_floating_point or not first.is_floating_point:
        ways.append(f"the first: x{converted_to(second)}")
    if first.is_floating_point or not second.is_floating_point:
        ways.append(f"the second: y{converted_to(first)}")
    return f"{op}: expected both of one dtype, got {first} and {second}; convert {', or '.join(ways)}"
