"""What the errors of backward say: cause and line."""

from __future__ import annotations

from pathlib import Path

import pytest

import extempo as ex
from extempo.errors import (
    GraphFreedError,
    NoGradientPathError,
    OverwrittenError,
)

HERE = Path(__file__).name


def line_of(text: str) -> str:
    """`file:line` of the first line of this file that contains the text after a marker comment."""
    for number, line in enumerate(Path(__file__).read_text().splitlines(), 1):
        if f"# {text}" in line:
            return f"{HERE}:{number}"
    raise AssertionError(text)


def test_overwritten_value_names_the_op_that_needs_it_and_the_line_that_overwrote_it():
    x = ex.ones(3, requires_grad=True)
    h = x * 2  # made here
    y = h.sin()  # needed here
    h.add_(1)  # overwritten here
    with pytest.raises(OverwrittenError) as caught:
        y.sum().backward()
    message = str(caught.value)
    assert "input 0 of sin" in message
    assert line_of("needed here") in message
    assert "made by mul" in message
    assert line_of("made here") in message
    assert f"overwritten in place at {Path(__file__)}" in message
    assert line_of("overwritten here") in message


@pytest.mark.parametrize("kind", ["detach", "no_grad", "integer", "item"])
def test_a_loss_without_a_path_says_where_it_was_cut(kind):
    w = ex.ones(3, requires_grad=True)
    if kind == "detach":
        y = (w.detach() * 2).sum()  # cut by detach
    elif kind == "no_grad":
        with ex.no_grad():
            h = w * 2  # cut by no_grad
        y = (h + 1).sum()
    elif kind == "integer":
        y = (w > 0).float().sum()  # cut by integer
    else:
        y = ex.tensor(w.sum().item()) * 2  # cut by item
    with pytest.raises(NoGradientPathError) as caught:
        y.backward()
    assert line_of(f"cut by {kind}") in str(caught.value)
    words = {"detach": "detach()", "no_grad": "no_grad()", "integer": "gt", "item": "Python number"}
    assert words[kind] in str(caught.value)


def test_a_forgotten_requires_grad_is_suggested():
    code = (
        "import extempo as ex\n"
        "try: (ex.ones(2) * 2).sum().backward()\n"
        "except ex.errors.NoGradientPathError as e: print(e)"
    )
    import subprocess
    import sys

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "did you forget requires_grad=True" in out


def test_backward_twice_is_an_error_that_tells_how():
    x = ex.ones(2, requires_grad=True)
    y = x.exp().sum()
    y.backward()
    with pytest.raises(GraphFreedError, match="retain_graph=True"):
        y.backward()
