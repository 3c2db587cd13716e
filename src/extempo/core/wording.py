"""Words for messages: counts that agree with their noun, and the name that a misspelt one may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def counted(n: int, noun: str, plural: str = "") -> str:
    """A number and its noun: "1 epoch", "2 epochs", "1,000 entries". `plural`: where it is not the noun and an s.

    >>> from extempo.core.wording import counted
    >>> counted(1, "batch", "batches"), counted(2, "step")
    ('1 batch', '2 steps')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message: "; did you mean 'valid_loss'?" if one of the names is near, else nothing.

    >>> from extempo.core.wording import did_you_mean
    >>> did_you_mean("val_loss", ["train_loss", "valid_loss"])
    "; did you mean 'valid_loss'?"
    """
    near = get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
