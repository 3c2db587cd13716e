"""The text of a tensor, as PyTorch prints it: an array and its suffixes in, `tensor([...], requires_grad=True)` out.

One number style for the whole tensor, chosen from the elements that are shown: whole numbers as `1.`, others with
`precision` digits, scientific when the magnitudes span more than 1000 or leave 1e-4 .. 1e8. Above `threshold` elements
only `edgeitems` at either end of each dimension are shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import ExtempoError
from .debuggers import looking
from .types import bool_, from_numpy_dtype, get_default_dtype, int64
from .value_summary import summarised

if TYPE_CHECKING:
    from .tensor import Tensor

Array = npt.NDArray[Any]


class PrintOptions(NamedTuple):
    """How tensors are printed."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None  # None: chosen for each tensor


PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}

_options = PROFILES["default"]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed.

    precision: digits after the point (4). threshold: more elements than this are summarised (1000).
    edgeitems: elements shown at either end of a summarised dimension (3). linewidth: characters in a line (80).
    profile: "default", "short" (2 digits, 2 edge items) or "full" (never summarised), before the others are applied.
    sci_mode: True or False for all tensors; None, also by leaving it out, chooses for each tensor again.

    >>> ex.set_printoptions(precision=2)
    >>> ex.tensor([1.2345, 2.0])
    tensor([1.23, 2.00])
    >>> ex.set_printoptions(precision=4)
    """
    global _options
    if profile is not None and profile not in PROFILES:
        raise ExtempoError(f"set_printoptions: expected profile 'default', 'short' or 'full', got {profile!r}")
    start = _options if profile is None else PROFILES[profile]
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    _options = start._replace(sci_mode=sci_mode, **changed)


def get_printoptions() -> dict[str, Any]:
    """The options in force, as `set_printoptions` takes them."""
    return _options._asdict()


def tensor_text(tensor: Tensor) -> str:
    """`repr` of a tensor: its values, its dtype where the values do not tell, and its place in the graph."""
    with looking():
        array = tensor._values()
        grad_fn = tensor.grad_fn
    kind = type(tensor).__name__
    suffixes = []
    dtype = from_numpy_dtype(array.dtype)
    told_by_values = (get_default_dtype(), int64, bool_) if array.size else (get_default_dtype(),)
    if dtype not in told_by_values:
        suffixes.append(f"dtype={dtype}")
    if grad_fn is not None:
        suffixes.append(f"grad_fn={grad_fn!r}")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    prefix = "tensor(" if kind in ("Tensor", "Parameter") else f"{kind}("
    return format_tensor(array, suffixes=suffixes, prefix=prefix)


def summary_text(tensor: Tensor) -> str:
    """What `print` adds to the text of a tensor that is too large to be shown whole: a line that sums its values up."""
    if tensor.numel() <= _options.threshold or not _options.edgeitems:
        return ""
    with looking():
        array = tensor._values()
    return f"\n# {summarised(array, str(from_numpy_dtype(array.dtype)).rpartition('.')[2])}"


def format_tensor(array: Array, *, suffixes: Sequence[str] = (), prefix: str = "tensor(") -> str:
    """`prefix`, the values, the size where the values do not show it, the suffixes, and a closing bracket."""
    options = _options
    size_is_seen = array.ndim == 1 if array.size == 0 else options.edgeitems > 0
    if not size_is_seen:
        suffixes = [f"size={array.shape}", *suffixes]
    values = "[]" if array.size == 0 else _values_text(array, len(prefix), options)
    return _with_suffixes(prefix + values, suffixes, len(prefix), options.linewidth) + ")"


def _values_text(array: Array, indent: int, options: PrintOptions) -> str:
    n_edge = options.edgeitems
    cut = [False] * array.ndim
    if array.size > options.threshold:
        cut = [size > 2 * n_edge for size in array.shape]
        for axis in range(array.ndim):
            if cut[axis]:
                n = array.shape[axis]
                array = array.take([*range(n_edge), *range(n - n_edge, n)], axis)
    if array.dtype.kind not in "biu":
        array = array.astype(np.float64)  # exact, and bfloat16 has no text of its own
    width, number_text = _number_style(array.reshape(-1), options)
    n_in_line = 1
    if array.ndim:
        n_in_line = max(1, (options.linewidth - indent - array.ndim + 1) // (width + 2))

    def text(items: Any, axis: int) -> str:
        if axis == array.ndim:
            return number_text(items).rjust(width)
        # A row of numbers is set in lines of `n_in_line`; rows of rows are set apart by one blank line a dimension.
        innermost = axis == array.ndim - 1
        texts = [text(item, axis + 1) for item in items]
        if cut[axis]:
            texts.insert(n_edge, " ..." if innermost and n_edge else "...")
        margin = " " * (indent + axis + 1)
        if innermost:
            lines = [", ".join(texts[at : at + n_in_line]) for at in range(0, len(texts), n_in_line)]
            return "[" + f",\n{margin}".join(lines) + "]"
        return "[" + ("," + "\n" * (array.ndim - 1 - axis) + margin).join(texts) + "]"

    return text(array.tolist(), 0)


def _number_style(shown: Array, options: PrintOptions) -> tuple[int, Callable[[Any], str]]:
    """How wide a number is, and its text."""
    if shown.dtype.kind in "biu":
        return max((len(str(value)) for value in shown.tolist()), default=1), str
    # Zeros, nan and infinities have no say in the style nor in the width.
    telling = shown[np.isfinite(shown) & (shown != 0)]
    if telling.size == 0:
        return 1, _whole_number
    style: Callable[[Any], str]
    if _is_scientific(np.abs(telling), options):
        style = f"{{:.{options.precision}e}}".format
    elif np.array_equal(telling, np.ceil(telling)):
        style = _whole_number
    else:
        style = f"{{:.{options.precision}f}}".format
    return max(len(style(value)) for value in telling.tolist()), style


def _is_scientific(magnitudes: Array, options: PrintOptions) -> bool:
    if options.sci_mode is not None:
        return options.sci_mode
    smallest, largest = float(magnitudes.min()), float(magnitudes.max())
    return smallest < 1e-4 or largest > 1e8 or largest / smallest > 1000


def _whole_number(value: float) -> str:
    return f"{value:.0f}." if math.isfinite(value) else f"{value}"


def _with_suffixes(text: str, suffixes: Sequence[str], indent: int, linewidth: int) -> str:
    # Two more than what is there: PyTorch counts so, and wraps accordingly.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text
