"""How a call of `ex.batch` that was recorded once is written down, so that native code knows another like it.

A pattern is int64 words: a head, then `WORDS` for each part of the arguments in the order in which they are met: a code
and what it says. Objects stand for themselves by their addresses; the cached call that has the pattern keeps them
alive.
"""

from __future__ import annotations

HEAD = ("n_arguments", "n_names", "views")  # views: whether results share memory with the first argument
WORDS = 3
# A tensor that is an input: its type, and flags: whether it is tracked, and then whether it must not be a leaf.
# A tuple or list: its class, its length; its parts follow.
# A number that is an input: its class.
# The same object; something equal, of the same class; the object that a weak reference refers to.
# A leaf that is part of the kind: itself, its type.
# The name of a keyword argument, which follows.
TENSOR, TUPLE, LIST, NUMBER, SAME, EQUAL, LEAF, NAME, REFERRED = range(9)
TRACKED, NO_LEAF = 1, 2
MOST_INPUTS = 64
MOST_RESULTS = 16
