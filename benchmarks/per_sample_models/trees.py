"""What the rows over binary trees share: a tree is the number of a word in its sentence, or a pair of trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from tree_lstm import draw_tree, levels_of

from .row import Sample, draw_label, draw_words


def draw(rng: Any, n: int) -> Sample:
    """Words, a tree over them, and its class."""
    numbers = iter(range(n))

    def numbered(tree: Any) -> Any:
        return next(numbers) if isinstance(tree, int) else (numbered(tree[0]), numbered(tree[1]))

    return draw_words(rng, n), numbered(draw_tree(rng, n)), draw_label(rng)


def collate(samples: list[Sample]) -> Sample:
    """All words, the numbers of the children of all nodes of each height, counted level by level, the roots, labels."""
    sentences, trees, labels = zip(*samples, strict=True)
    _, levels, roots = levels_of(list(trees))
    return np.concatenate(sentences), [tuple(map(np.array, one)) for one in levels], np.array(roots), np.array(labels)
