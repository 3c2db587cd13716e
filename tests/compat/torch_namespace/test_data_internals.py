"""Parts of collate functions and workers."""

from __future__ import annotations

from collections import namedtuple

import extempo as ex
from extempo.compat.torch_namespace.data_internals import _generate_state, collate, default_collate_fn_map, pin_memory

Pair = namedtuple("Pair", "a b")


class Word:
    def __init__(self, text):
        self.text = text


def joined(batch, *, collate_fn_map=None):
    return "+".join(word.text for word in batch)


def test_classes_of_the_table_are_collated_wherever_they_stand():
    samples = [{"w": Word(str(i)), "p": Pair(ex.ones(2) * i, [i, Word("x")])} for i in range(2)]
    batch = collate(samples, collate_fn_map={**default_collate_fn_map, Word: joined})
    assert batch["w"] == "0+1"
    assert isinstance(batch["p"], Pair)
    assert batch["p"].a.tolist() == [[0, 0], [1, 1]]
    assert batch["p"].b[0].tolist() == [0, 1]
    assert batch["p"].b[1] == "x+x"


def test_without_a_table_it_is_the_default():
    assert collate([1, 2]).tolist() == [1, 2]
    assert collate(["a", "b"]) == ["a", "b"]


def test_nothing_is_pinned():
    data = [ex.ones(2)]
    assert pin_memory(data) is data


def test_each_worker_has_seeds_of_its_own():
    assert _generate_state(1, 0) == _generate_state(1, 0) != _generate_state(1, 1)
    assert len(_generate_state(1, 0)) == 4
