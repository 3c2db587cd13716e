"""What an error tells of the program when it is shown."""

from __future__ import annotations

import copy
import pickle
import traceback

import pytest

import extempo as ex
from extempo import nn
from extempo.core import error_context
from extempo.errors import DtypeError, ShapeError


class Block(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.linear1 = nn.Linear(n_in, n_out)
        self.mixed = nn.Parameter(ex.ones(5, n_out))

    def forward(self, x):
        h = self.linear1(x)
        return (h @ self.mixed.T + ex.ones(7)).relu()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block(4, 3) for _ in range(4))

    def forward(self, x):
        return self.layers[3](x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x):
        return self.encoder(x)


def shown(fn, kind=ShapeError):
    with pytest.raises(kind) as raised:
        fn()
    return "".join(traceback.format_exception_only(raised.value))


def test_an_error_inside_of_a_model_names_the_path_of_the_module_and_what_came_in():
    text = shown(lambda: Net()(ex.ones(2, 9)))
    assert "in encoder.layers.3.linear1 (Linear), which got float32 (2, 9)" in text


@pytest.mark.parametrize("wrap", [lambda model: model, ex.compile], ids=["eager", "compiled"])
def test_the_operands_of_the_failing_expression_have_their_shapes(wrap):
    text = shown(lambda: wrap(Net())(ex.ones(2, 4)))
    assert "in encoder.layers.3 (Block), which got float32 (2, 4)" in text
    assert "operands of `h @ self.mixed.T + ex.ones(7)`:" in text
    assert "h @ self.mixed.T  float32 (2, 5)" in text
    assert "ex.ones(7)        float32 (7,)" in text


def test_arguments_of_a_call_are_operands():
    scores, masks = ex.ones(2, 3), [ex.ones(2, 4)]
    text = shown(lambda: ex.cat([scores, masks[0]], 0))
    assert "scores    float32 (2, 3)" in text
    assert "masks[0]  float32 (2, 4)" in text


def test_two_names_whose_shapes_the_message_has_are_not_told_again():
    a, b = ex.ones(2, 3), ex.ones(4)
    assert "operands" not in shown(lambda: a + b)


def test_a_wrong_dtype_names_the_module_too():
    text = shown(lambda: nn.Sequential(nn.Linear(2, 2))(ex.ones(1, 2).double()), DtypeError)
    assert "in 0 (Linear), which got float64 (1, 2)" in text


def test_an_error_that_is_caught_and_forgotten_looks_at_nothing(monkeypatch):
    monkeypatch.setattr(error_context, "notes_of", lambda error: pytest.fail("nobody has asked"))
    with pytest.raises(ShapeError) as raised:
        Net()(ex.ones(2, 9))
    assert "expected input" in str(raised.value)


def test_notes_of_others_stay_and_come_first():
    with pytest.raises(ShapeError) as raised:
        Net()(ex.ones(2, 9))
    raised.value.add_note("from a callback")
    assert raised.value.__notes__[0] == "from a callback"
    assert raised.value.__notes__[1].startswith("in encoder.")
    for copied in (copy.copy(raised.value), pickle.loads(pickle.dumps(raised.value))):
        assert copied.__notes__ == ["from a callback"]  # a copy has no traceback
    raised.value.__notes__ = []
    assert len(raised.value.__notes__) == 1
    with pytest.raises(TypeError, match="note must be a str"):
        raised.value.add_note(1)


def test_code_without_source_gets_no_expression():
    frame: dict[str, object] = {"ex": ex}
    exec(compile("def f(): return (ex.ones(2) + 0) * (ex.ones(3) + 0)", "<nowhere>", "exec"), frame)
    assert "operands" not in shown(frame["f"])
