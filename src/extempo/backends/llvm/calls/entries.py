"""What is known of a function that makes one op of its arguments: `dispatch.inline_cache` writes it down, native code
reads it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

LATELY = 4  # entries that native code looks through before it asks a dict
CONSTANT = -1  # a source that is no argument, but the constant at the same place
ALL = -1  # what is picked of an op with one result, or of all results


class Entry(NamedTuple):
    """What a function made of some arguments."""

    expected: tuple[Any, ...]  # of each argument: the type of a tensor, or the argument itself
    sources: tuple[int, ...]  # of each input of the op: which argument it is, or CONSTANT
    constants: tuple[Any, ...]  # for each input what it is if it is no argument
    op: Any  # None: it is not one op, and the function itself is called
    attrs: dict[str, Any]
    pick: int  # which result is returned, or ALL
