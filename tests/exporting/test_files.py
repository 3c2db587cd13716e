"""Programs in files: saved and loaded without their class, and damaged files refused, never executed."""

from __future__ import annotations

import io
import random
import subprocess
import sys

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ExtempoError
from extempo.serialization.files import FileFormatError


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x):
        h = ex.zeros(x.shape[1], 4)
        for step in x:
            h = self.cell(step, h)
        return h


@pytest.fixture(scope="module")
def program():
    return ex.program(Net().eval(), ex.randn(5, 2, 3), dynamic={"x": {0: "time", 1: "batch"}})


def saved(program) -> bytes:
    file = io.BytesIO()
    program.save(file)
    return file.getvalue()


def test_a_program_runs_from_its_file_in_a_process_that_has_not_its_class(program, tmp_path):
    path, x = tmp_path / "net.extempo", ex.randn(7, 3, 3)
    program.save(path)
    ex.save(x, tmp_path / "x.ex")
    code = (
        "import sys, extempo as ex\n"
        f"ex.save(ex.load_program({str(path)!r})(ex.load({str(tmp_path / 'x.ex')!r})), {str(tmp_path / 'y.ex')!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert ex.equal(ex.load(tmp_path / "y.ex"), program(x))


def test_other_files_are_refused_by_name(tmp_path):
    ex.save({"a": ex.ones(2)}, tmp_path / "a.ex")
    (tmp_path / "b.ex").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(FileFormatError, match=r"was not written by program\.save"):
        ex.load_program(str(tmp_path / "a.ex"))
    with pytest.raises(FileFormatError):
        ex.load_program(str(tmp_path / "b.ex"))
    file = io.BytesIO()
    ex.save({"format": "extempo program", "program": 3}, file)
    file.seek(0)
    with pytest.raises(FileFormatError, match="has no program"):
        ex.load_program(file)


def mutants(data: bytes, n: int, seed: int = 0):
    """Copies of a file that are cut short, or have bytes changed, left out, or put in."""
    draw = random.Random(seed)
    for _ in range(n):
        made = bytearray(data)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(made)) if made else 0
            action = draw.randrange(4)
            if action == 0 and made:
                made[at] ^= 1 << draw.randrange(8)
            elif action == 1:
                del made[at:]
            elif action == 2:
                del made[at : at + draw.randint(1, 64)]
            else:
                made[at:at] = draw.randbytes(draw.randint(1, 64))
        if bytes(made) != data:
            yield bytes(made)


def test_damaged_files_are_refused_in_words(program):
    data = saved(program)
    for mutant in mutants(data, 400):
        with pytest.raises(ExtempoError) as caught:
            ex.load_program(io.BytesIO(mutant))
        assert len(str(caught.value)) > 20
