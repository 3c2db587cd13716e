"""Op: what a class must state to be an operation, and what its family works out for it."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import (
    REGISTRY,
    Decomposed,
    Elementwise,
    Op,
    Refuse,
    Routine,
    Sample,
    samples_binary,
    samples_unary,
)
from extempo.core.types import TensorType, float16, float32, float64, int64
from extempo.errors import DtypeError, ShapeError


@pytest.fixture
def define():
    """Defines ops that are forgotten after the test."""
    before = set(REGISTRY)

    def defined(class_name, bases=(Op,), **aspects):
        whole = dict.fromkeys(("infer", "numpy", "batch", "ragged", "onnx", "samples"), Refuse("a test"))
        whole |= {"vjp": staticmethod(lambda g, y, a, b: (g, g)), "saves": ("", "")}
        return type(class_name, bases, whole | aspects)

    yield defined
    for name in set(REGISTRY) - before:
        del REGISTRY[name]


def test_an_op_is_found_by_its_name_in_snake_case(define):
    op = define("MyOwnXYStep")
    assert op.name == "my_own_xystep"
    assert REGISTRY["my_own_xystep"] is op
    assert define("SpecialThing", name="special_thing").public_name == "special.thing"


def test_an_op_that_lacks_an_aspect_is_an_error_when_it_is_defined():
    with pytest.raises(TypeError, match="missing infer, numpy, batch, ragged, onnx, samples"):
        type("Half", (Op,), {"vjp": Refuse("none"), "saves": ()})
    assert "half" not in REGISTRY


def test_a_name_is_defined_once(define):
    define("Twice")
    with pytest.raises(TypeError, match="defined twice"):
        define("Twice")


def test_saves_names_what_the_gradient_takes(define):
    with pytest.raises(TypeError, match=r"saves names \['c'\], vjp has \['a', 'b', 'y'\]"):
        define("Wrong", saves=("c", "a"))
    assert "wrong" not in REGISTRY


def test_what_is_kept_depends_on_which_gradients_are_needed(define):
    op = define("Product", saves=("b", "a y"))
    t = TensorType((2,), float32)
    assert op.save_plan((0b01, 0b11), (t, t)) == (2,)
    assert op.save_plan((0b10, 0b11), (t, t)) == (0, 1)
    assert op.save_plan((0b11, 0b11), (t, t)) == (0, 1, 2)
    assert op.save_plan((0b01, 0b01), (t, float)) == ()  # a number is an input of the node itself
    assert op._save_plans[0b01, 0b11] == (2,)


def test_one_entry_of_saves_stands_for_all_inputs_that_follow(define):
    op = define("Joined", vjp=staticmethod(lambda g, y, *xs: g), saves=("y.1",))
    t = TensorType((2,), float32)
    assert op.save_plan((0b100, 0b111), (t, t, t)) == (-2,)


def test_an_op_without_gradient_keeps_nothing(define):
    op = define("Step", vjp=Refuse("piecewise constant"), saves=())
    assert op.save_plan((1, 1), (TensorType((2,), float32),)) == ()


def test_elementwise_ops_broadcast_and_promote_and_say_what_does_not_fit():
    add = REGISTRY["add"]
    assert add.infer(TensorType((3, 1), float32), TensorType((4,), int64)) == TensorType((3, 4), float32)
    assert add.infer(TensorType((0,), int64), float) == TensorType((0,), float32)
    with pytest.raises(ShapeError, match="add"):
        add.infer(TensorType((3,), float32), TensorType((4,), float32))
    with pytest.raises(DtypeError, match="add: expected tensors or numbers, got None"):
        add.infer(TensorType((3,), float32), type(None))
    with pytest.raises(DtypeError, match="bitwise_and: expected bool or integer tensors"):
        REGISTRY["bitwise_and"].infer(TensorType((3,), float32), int)


def test_a_signature_says_what_inputs_are_converted_to():
    add, gelu = REGISTRY["add"], REGISTRY["gelu"]
    assert add.signature((TensorType((2,), float32), float), {}).compute is None
    assert add.signature((TensorType((2,), float32), TensorType((2,), float64)), {}).compute == np.float64
    assert gelu.signature((TensorType((2,), float16),), {}).compute == np.float32  # rounded once, at the end
    assert add.signature((TensorType((2,), int64), TensorType((2,), int64)), {}).compute is None


def test_only_plain_elementwise_ops_of_floats_are_simple(define):
    assert REGISTRY["add"].simple
    assert not REGISTRY["eq"].simple
    assert not REGISTRY["bitwise_and"].simple
    own = define(
        "OwnRule", (Elementwise,), saves=None, batch="align", _rule=classmethod(lambda cls, types: (types[0], float32))
    )
    assert not own.simple


def test_the_onnx_form_of_an_elementwise_op_is_its_native_code_or_its_kernel(define):
    assert define("NoElements", (Elementwise,), lower=Refuse("a test"), onnx="elementwise").onnx == "kernel"
    assert define("Elements", (Elementwise,), lower=lambda e, x: x, onnx="elementwise").onnx == "elementwise"


def test_an_op_may_be_said_in_others_with_loops_or_without():
    plain, looped = Decomposed(lambda x, *, dim: x), Decomposed(lambda flow, x: x)
    assert (plain.has_loops, looped.has_loops) == (False, True)
    assert repr(plain).startswith("Decomposed(")


def test_samples_have_the_shapes_that_go_wrong():
    rng = np.random.default_rng(0)
    assert [s.inputs[0].shape for s in samples_unary(rng)] == [(3, 4), (), (0, 3)]
    assert any(0 in np.shape(s.inputs[0]) for s in samples_binary(rng))
    assert all(-1 <= v < 1 for s in samples_unary(rng, -1, 1) for v in s.inputs[0].reshape(-1))
    assert repr(Sample(np.zeros((2, 0)), 1.5, None, dim=1)) == "Sample(float64[2, 0], 1.5, None, dim=1)"
    assert (repr(Refuse("why")), repr(Routine("sum"))) == ("Refuse('why')", "Routine('sum')")


def test_every_refusal_gives_a_reason():
    for op in REGISTRY.values():
        for aspect in (op.infer, op.numpy, op.vjp, op.lower, op.batch, op.ragged, op.onnx, op.samples):
            assert not isinstance(aspect, Refuse) or aspect.why, op.name
    assert ex.ops.arithmetic.Add is REGISTRY["add"]
