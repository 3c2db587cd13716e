"""Layers that are declared: their constructors, reprs and forwards are those that one would write by hand."""

from __future__ import annotations

import copy
import inspect
import pickle
import traceback
from typing import Any, get_type_hints

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError
from extempo.nn.function_layer import FunctionLayer, OneInputLayer, stores_arguments


def scaled(input: ex.Tensor, factor: float, shift: float) -> ex.Tensor:
    return input * factor + shift


@stores_arguments
class Scale(OneInputLayer):
    factor: float
    shift: float = 0.0
    _function = staticmethod(scaled)


@stores_arguments
class Between(Scale):
    limit: float | None = None
    _options = ("factor", "shift")
    _shown = ("limit",)

    def _store(self, **arguments: Any) -> None:
        if arguments["limit"] is None:
            arguments["limit"] = 2 * arguments["factor"]
        super()._store(**arguments)


def test_the_constructor_has_the_signature_of_the_annotations_those_of_bases_first():
    assert str(inspect.signature(Scale)) == "(factor: 'float', shift: 'float' = 0.0) -> 'None'"
    assert list(inspect.signature(Between).parameters) == ["factor", "shift", "limit"]
    assert get_type_hints(Between.__init__)["limit"] == float | None
    assert get_type_hints(Scale.forward) == {"input": ex.Tensor, "return": ex.Tensor}
    assert Scale.__init__.__qualname__ == "Scale.__init__"


def test_a_wrong_call_is_a_type_error_as_pythons_own():
    with pytest.raises(TypeError, match=r"Scale.__init__\(\) missing 1 required positional argument: 'factor'"):
        Scale()
    with pytest.raises(TypeError, match=r"Scale: there is no argument 'fctor'; did you mean 'factor'\?"):
        Scale(fctor=1.0)
    with pytest.raises(TypeError, match="takes from 2 to 3 positional arguments but 4 were given"):
        Scale(1.0, 2.0, 3.0)


def test_arguments_become_attributes_and_defaults_do_not_stay_on_the_class():
    layer = Scale(3.0)
    assert (layer.factor, layer.shift) == (3.0, 0.0)
    assert not hasattr(Scale, "shift")
    assert layer(ex.tensor([1.0])).tolist() == [3.0]
    layer.shift = 1.0  # read at each call
    assert layer(ex.tensor([1.0])).tolist() == [4.0]
    assert repr(layer) == "Scale(factor=3.0, shift=1.0)"


def test_a_class_may_complete_its_arguments_and_choose_what_is_passed_and_shown():
    layer = Between(2.0, shift=1.0)
    assert layer.limit == 4.0
    assert layer(ex.tensor([1.0])).tolist() == [3.0]
    assert repr(layer) == "Between(limit=4.0)"
    assert repr(copy.deepcopy(layer)) == repr(pickle.loads(pickle.dumps(layer))) == repr(layer)


def test_a_class_with_a_forward_of_its_own_keeps_it_when_subclassed():
    class Doubled(nn.LeakyReLU):
        def __init__(self) -> None:
            super().__init__(0.5)

        def forward(self, input: ex.Tensor) -> ex.Tensor:
            return 2 * super().forward(input)

    assert Doubled()(ex.tensor([-2.0])).tolist() == [-2.0]
    same = type("Same", (nn.LeakyReLU,), {})
    assert [c._is_cell and not c._needs_proof for c in (nn.LeakyReLU, Doubled, same)] == [True, False, True]


def test_arguments_that_are_not_kept_are_no_attributes():
    loss = nn.MSELoss(size_average=False)
    assert loss.reduction == "sum"
    assert not hasattr(loss, "size_average")
    assert nn.Hardtanh(min_value=-3.0).min_val == -3.0
    assert issubclass(nn.MSELoss, FunctionLayer)


def test_tracebacks_show_what_was_written():
    with pytest.raises(ArgumentError) as caught:
        nn.Dropout(3.0)
    assert "self._store(p=p, inplace=inplace)" in "".join(traceback.format_exception(caught.value))
    assert inspect.getsource(nn.LeakyReLU.forward).endswith("self._function(input, self.negative_slope, self.inplace)")


@pytest.mark.parametrize("name", ["ReLU", "LeakyReLU", "Threshold", "MaxPool2d", "CrossEntropyLoss", "Fold"])
def test_signatures_have_pytorchs_names_and_defaults(name):
    torch = pytest.importorskip("torch")
    ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (nn, torch.nn))
    assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in theirs.values()]
