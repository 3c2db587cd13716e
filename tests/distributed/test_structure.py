"""What ranks must have in common."""

from __future__ import annotations

from extempo import nn
from extempo.distributed.structure import Structure, code_of, first_difference


def test_a_structure_sees_growth_and_layers_that_are_swapped():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    structure = Structure(model)
    first = structure.digest
    assert not structure.look()
    model.append(nn.Linear(2, 3))
    assert structure.look()
    assert structure.digest != first
    before = structure.digest
    model[0] = nn.Linear(2, 2)
    assert structure.look()
    assert structure.digest != before
    assert structure.entries[0].generation == 1
    assert "replaced 1 times" in str(structure.entries[0])


def test_code_is_known_by_what_forward_does():
    def made(body):
        space = {"nn": nn}
        exec(f"class Net(nn.Module):\n    def forward(self, x):\n        return {body}", space)
        return code_of(space["Net"]())

    assert made("x + 1") == made("x + 1")
    assert made("x + 1") != made("x + 2")


def test_the_first_difference_names_the_rank():
    assert first_difference([["a"], ["a"], ["b"]], "x") == "rank 0 has x a, rank 2 has b"
    assert first_difference([["a"], ["a", "c"]], "x") == "rank 1 has x c, rank 0 has not"
    assert first_difference([["a"], ["a"]], "x") == "all ranks are alike now"
