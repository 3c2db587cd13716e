"""The text of programs: read back as it was written, and refused with its line where it is not one."""

from __future__ import annotations

import contextlib
import random
import re

import pytest

import extempo as ex
from extempo import nn
from extempo.core.graph import type_text
from extempo.exporting.text import parse_program, parse_type, program_text
from extempo.serialization.files import FileFormatError


class Model(nn.Module):
    """A bit of everything: weights, sizes, branches, loops, several results, dtypes as attributes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x):
        h = ex.zeros(4)
        for row in self.layer(x):
            h = ex.tanh(h + row) if row.sum() > 0 else h - 1e-3
        n = 0
        while h.sum() < 3 and n < 5:
            h, n = h + 1, n + 1
        values, places = x.to(ex.float64).sort(1)
        return {"h": h, "n": n, "rows": x.shape[0], "values": values, "places": places}


@pytest.fixture(scope="module")
def program():
    return ex.program(Model().eval(), ex.randn(2, 3), dynamic={"x": {0: "n"}})


def without_lines(text):
    return re.sub("  # .*", "", text)


def test_a_program_is_read_back_as_it_was_written(program):
    text = program_text(program)
    again = parse_program(text, program.weights)
    assert without_lines(program_text(again)) == without_lines(text)
    x = ex.randn(5, 3)
    for ours, theirs in zip(again(x).values(), program(x).values(), strict=True):
        assert ours == theirs if isinstance(theirs, int) else ex.equal(ours, theirs)
    assert again.trainable == program.trainable
    assert text == str(program)


def test_types_are_read_back():
    for text in ("f32[3, n]", "bool[]", "(i64[2 * n + 1], bf16[max(0, n - 1)])", "()"):
        assert type_text(parse_type(text)) == text


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("extempo program 1", "extempo program 2", "it has version 2"),
        ("extempo program 1", "hello", "should begin with `extempo program`"),
        (" = linear(", " = linnear(", "there is no op 'linnear'"),
        (" = linear(%0", " = linear(%99", "%99 is used, and no line above defines it"),
        ("weight %1 layer", "weight %1 lawyer", "the file has no weight 'lawyer.weight'"),
        ("\nreturn ", "\nretour ", "expected a node"),
        ('result ["dict"', 'result ["dictator"', "not in the right form"),
        ("output output.h\n", "", "not as many"),
        ("size n 0 ..\n", "", "a size is used that no input has"),
        ("index=0", "index=7", "a result is picked that there is not"),
        ("n_carried=1", "n_carried=9", "do not fit its inputs and results"),
        ("f32[n, 3]\n", "f32[n, 3\n", "should be `%0 name: f32"),
        ("keepdim=False", "keepdim=open('x')", "is no value of a program"),
    ],
)
def test_text_that_is_no_program_is_refused_with_its_line(program, before, after, message):
    text = without_lines(program_text(program))
    assert before in text
    with pytest.raises(FileFormatError, match=re.escape(message)):
        parse_program(text.replace(before, after, 1), program.weights)


def test_mutated_text_is_refused_or_read_and_never_anything_else(program):
    text, draw = program_text(program), random.Random(0)
    for _ in range(400):
        characters = list(text)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(characters))
            action = draw.randrange(4)
            if action == 0:
                characters[at] = draw.choice("()[]{},:%=0123456789abn. \n\"'#-*/")
            elif action == 1:
                del characters[at : at + draw.randint(1, 30)]
            elif action == 2:
                characters[at:at] = characters[draw.randrange(len(characters)) :][: draw.randint(1, 40)]
            else:
                characters = characters[: max(1, at)]
            if not characters:
                break
        with contextlib.suppress(FileFormatError):
            parse_program("".join(characters), program.weights)


def test_names_with_spaces_colons_and_line_ends_are_kept():
    program = ex.program(lambda x: {"a: b\n": x['a "b"'] * 2}, ({'a "b"': ex.ones(2)},))
    again = parse_program(str(program), program.weights)
    assert str(again) == "\n".join(line.split("  #")[0] for line in str(program).split("\n"))
    assert again({'a "b"': ex.ones(2)})["a: b\n"].tolist() == [2, 2]
