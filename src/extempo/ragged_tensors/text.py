"""The text of a ragged tensor: its rows, each with its length."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ..core.printing import format_tensor, get_printoptions
from ..core.types import bool_, get_default_dtype, int64

if TYPE_CHECKING:
    from .tensor import RaggedTensor

_MOST_ROWS = 12


def ragged_text(x: RaggedTensor) -> str:
    """`repr`: one row after the other, many rows in part."""
    shown = _shown(x)
    values = x.detach()
    texts = {}
    for i in shown:
        text = format_tensor(values.row(i)._values(), prefix="  ")
        texts[i] = text[2:-1] if values.row(i).numel() else "[]"
    one_line = [len(text) for text in texts.values() if "\n" not in text]
    width = max(one_line, default=0)
    lines = []
    for at, i in enumerate(shown):
        if at and i != shown[at - 1] + 1:
            lines.append("  ...")
        *head, last = texts[i].split("\n")
        lines += [f"  {head[0]}", *head[1:], f"{last},  # {x._rows.lengths[i]}"] if head else [
            f"  {last},{' ' * (width - len(last))}  # {x._rows.lengths[i]}"
        ]  # fmt: skip
    suffixes = [f"shape={_shape_text(x)}"]
    if x.dtype not in (get_default_dtype(), int64, bool_):
        suffixes.append(f"dtype={x.dtype}")
    if x.grad_fn is not None:
        suffixes.append(f"grad_fn={x.grad_fn!r}")
    elif x.requires_grad:
        suffixes.append("requires_grad=True")
    rows = "[\n" + "\n".join(lines) + "\n]" if lines else "[]"
    return f"ragged({rows}, {', '.join(suffixes)})"


def ragged_html(x: RaggedTensor) -> str:
    """For Jupyter: a line of a table for each row, with its length; many rows in part."""
    values, lines, before = x.detach(), [], -1
    for i in _shown(x):
        if i != before + 1:
            lines.append('<tr><td>...</td><td style="text-align:left">...</td><td></td></tr>')
        text = escape(format_tensor(values.row(i)._values(), prefix="")[:-1])
        cells = f'<td>{i}</td><td style="text-align:left"><pre>{text}</pre></td><td>{x._rows.lengths[i]}</td>'
        lines.append(f"<tr>{cells}</tr>")
        before = i
    head = "<tr><th>row</th><th>values</th><th>length</th></tr>"
    kind = escape(f"ragged {_shape_text(x)}, {x.dtype}")
    return f"<table><caption>{kind}</caption><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"


def _shown(x: RaggedTensor) -> list[int]:
    """The places of the rows that are shown."""
    n, n_edge = len(x), get_printoptions()["edgeitems"]
    return list(range(n)) if n <= _MOST_ROWS else [*range(n_edge), *range(n - n_edge, n)]


def _shape_text(x: RaggedTensor) -> str:
    sizes = ", ".join(str(size) for size in x.shape)
    return f"({sizes})"
