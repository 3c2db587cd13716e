"""Arguments that no function can take: every error is one of Extempo's own and names the function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import extempo as ex
from extempo.errors import DtypeError, ExtempoError, IndexRangeError, NumericalError, ShapeError
from extempo.nn import functional as F
from extempo.ops import define

SQUARE = ex.ones(4, 4)
TOO_LARGE = {
    "empty": lambda: ex.empty(1 << 40, 1 << 40),
    "zeros": lambda: ex.zeros(1 << 64, 0),
    "ones": lambda: ex.ones(1 << 63),
    "full": lambda: ex.full((1 << 62,), 1.0),
    "eye": lambda: ex.eye(1 << 40),
    "rand": lambda: ex.rand(1 << 40, 1 << 40),
    "randint": lambda: ex.randint(0, 5, (1 << 40, 1 << 40)),
    "randperm": lambda: ex.randperm(1 << 62),
    "empty_permuted": lambda: ex.empty_permuted((1 << 40, 1 << 40), (0, 1)),
    "zeros ": lambda: SQUARE.new_zeros(1 << 40, 1 << 40),
    "resize_": lambda: ex.zeros(2).resize_(1 << 40, 1 << 40),
    "expand": lambda: ex.zeros(1).expand(1 << 40, 1 << 40),
    "expand ": lambda: ex.broadcast_to(ex.zeros(1), (1 << 64,)),
    "reshape": lambda: ex.zeros(0).reshape(1 << 40, 1 << 40, 0),
    "expand  ": lambda: SQUARE.repeat(1 << 62, 1),
    "expand   ": lambda: ex.tile(SQUARE, (1 << 70,)),
    "as_strided": lambda: SQUARE.as_strided((1 << 40, 1 << 40), (0, 0)),
    "arange": lambda: ex.arange(1e30),
    "arange ": lambda: ex.arange(1 << 64),
    "linspace": lambda: ex.linspace(0, 1, 1 << 62),
    "logspace": lambda: ex.logspace(0, 1, 1 << 64),
    "bincount": lambda: ex.bincount(ex.tensor([1]), minlength=1 << 62),
    "one_hot": lambda: F.one_hot(ex.tensor([1]), 1 << 62),
    "tril_indices": lambda: ex.tril_indices(1 << 70, 1),
    "interpolate": lambda: F.interpolate(ex.ones(1, 1, 2), size=1 << 62),
    "adaptive_avg_pool1d": lambda: F.adaptive_avg_pool1d(ex.ones(1, 1, 4), 1 << 62),
    "multinomial": lambda: ex.multinomial(ex.ones(3), 1 << 62, replacement=True),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_sizes_beyond_all_memory_are_a_shape_error(name):
    with pytest.raises(
        ShapeError, match=f"^{name.strip()}: a tensor of shape .* more elements than memory has addresses"
    ):
        TOO_LARGE[name]()


@pytest.mark.parametrize(
    "fn",
    [lambda: ex.zeros(1 << 44), lambda: ex.zeros(1).expand(1 << 44).clone(), lambda: ex.zeros(1).expand(1 << 60) + 1],
)
def test_sizes_beyond_this_memory_are_a_memory_error_that_says_how_much(fn):
    with pytest.raises(MemoryError, match=r"no memory for [\d,]+ bytes|allocate [\d.]+ [TE]iB"):
        fn()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + (1 << 70),
        lambda x: ex.mul(x, -(1 << 64)),
        lambda x: x == (1 << 70),
        lambda x: x.clamp(max=1 << 70),
        lambda x: x.masked_fill(x > 0, 1 << 70),
        lambda x: ex.where(x > 0, x, 1 << 70),
        lambda x: x.view(2, 2).tril(1 << 70),
    ],
)
def test_numbers_outside_of_int64_are_named_by_the_op(fn):
    with pytest.raises(NumericalError, match=r"^\w+: a number lies outside of int64"):
        fn(ex.arange(4))


MISFITS = [
    (lambda: F.embedding(ex.tensor([0]), ex.tensor(1.0)), ShapeError, "embedding: weight must have shape"),
    (lambda: ex.rot90(SQUARE, 1, (0,)), ShapeError, "rot90: expected two different dimensions, got (0,)"),
    (lambda: ex.rot90(SQUARE, 1, 0), ShapeError, "rot90: expected two different dimensions, got (0,)"),
    (lambda: ex.rot90(SQUARE, 1.5), DtypeError, "rot90: k counts turns"),
    (lambda: ex.linalg.lstsq(ex.tensor(1.0), ex.tensor(1.0)), ShapeError, "linalg.lstsq: expected matrices"),
    (lambda: ex.iinfo(SQUARE), DtypeError, "iinfo: expected an integer dtype"),
    (lambda: ex.iinfo("x"), DtypeError, "iinfo: expected an integer dtype"),
    (lambda: ex.finfo(SQUARE), DtypeError, "finfo: expected a floating dtype"),
    (lambda: ex.max(2, 3), DtypeError, "max: expected a tensor, got int"),
    (lambda: ex.min(2), DtypeError, "min: expected a tensor, got int"),
    (lambda: ex.hsplit(SQUARE, 2.0), DtypeError, "hsplit: expected a number of sections"),
    (lambda: ex.hsplit(SQUARE, (0.5, 1.5)), DtypeError, "hsplit: expected a number of sections"),
    (lambda: ex.vsplit(SQUARE, "abc"), DtypeError, "vsplit: expected a number of sections"),
    (lambda: ex.split(SQUARE, 1.5), DtypeError, "split: expected a size or a list of sizes"),
    (lambda: ex.heaviside(SQUARE, 1), DtypeError, "heaviside: expected two tensors, got Tensor and int"),
    (lambda: ex.narrow(SQUARE, 0, ex.tensor(True), 1), DtypeError, "narrow: start must be an int"),
    (lambda: ex.det(3), DtypeError, "det: expected tensors, got int"),
    (lambda: ex.sum("abc"), DtypeError, "sum: cannot take ('abc'): 'str' object has no attribute 'ndim'"),
    (lambda: ex.cumsum(SQUARE, 0, dtype=SQUARE), DtypeError, "expected a dtype such as ex.float32"),
    (lambda: ex.cat(SQUARE), DtypeError, "cat: expected a list of tensors, got one tensor"),
    (lambda: SQUARE.sum(1 << 70), IndexRangeError, "sum: dim"),
    (lambda: ex.signal.windows.general_cosine(3, a=None), ShapeError, "general_cosine: a must hold"),
    (lambda: F.rrelu(SQUARE, 0.3, 0.1), NumericalError, "rrelu: expected lower <= upper"),
    (lambda: ex.zeros(2).log_normal_(0, 0), NumericalError, "log_normal_: std must be positive"),
    (lambda: F.max_pool2d(ex.zeros(2, 0, 4, 4), 2), ShapeError, "max_pool2d: shape (2, 0, 4, 4) has no channels"),
    (lambda: F.avg_pool1d(ex.zeros(0, 4), 2), ShapeError, "avg_pool1d: shape (0, 4) has no channels"),
    (
        lambda: F.linear_cross_entropy(ex.ones(3), ex.ones(2, 4, 3), ex.tensor([0])),
        ShapeError,
        "needs input (batch, features)",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), MISFITS)
def test_misfits_are_errors_that_teach(call, kind, text):
    with pytest.raises(kind, match=re.escape(text)) as raised:
        call()
    assert isinstance(raised.value, ExtempoError)


def _teaching_functions() -> dict[str, Callable[..., Any]]:
    """Functions that name themselves in every error: those with `dim=`, and those that take long anyway."""
    found = {}
    for label, space in (("", ex), ("linalg.", ex.linalg), ("nn.functional.", F)):
        for name, fn in vars(space).items():
            if inspect.isfunction(fn) and fn.__code__.co_filename == define.__file__ and hasattr(fn, "__wrapped__"):
                found[label + name] = fn
    return found


TEACHING = _teaching_functions()
FITTING = {"dim": 0, "k": 1, "n": 1, "source": 0, "destination": 1, "index": ex.zeros(2, 3, dtype=ex.int64)}


def _misfits() -> list[Any]:
    tensors = [ex.tensor(1.5), ex.zeros(0), ex.ones(2, 3, dtype=ex.bool), ex.ones(2, 1, 2)]
    return [3, 0.5, None, "x", (), (0.5, 1.5), 1 << 70, object(), *tensors]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(TEACHING))
def test_whatever_is_given_the_errors_are_extempos(name):
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = [p for p in inspect.signature(TEACHING[name]).parameters.values() if p.kind in kinds]
    needed = [p.name for p in parameters if p.default is p.empty]
    for parameter in parameters:
        if parameter.name == "niter":  # any number of iterations is one, and 2**70 take long
            continue
        for misfit in _misfits():
            arguments = {key: FITTING.get(key, SQUARE[:2, :3]) for key in needed} | {parameter.name: misfit}
            try:
                TEACHING[name](**arguments)
            except (ExtempoError, MemoryError) as error:
                assert str(error)  # noqa: PT017 - which of the calls raise is not the matter


def test_there_are_many_functions_that_teach():
    assert len(TEACHING) > 120
    assert {"sum", "cumsum", "cat", "det", "linalg.inv", "linalg.lstsq", "histc", "cov", "diff"} <= TEACHING.keys()


def test_arguments_that_python_cannot_bind_stay_its_own_error():
    with pytest.raises(TypeError, match=r"cumsum\(\) missing 1 required positional argument") as raised:
        ex.cumsum(SQUARE)
    assert not isinstance(raised.value, ExtempoError)


def test_more_elements_than_there_are_have_no_combination_and_still_a_gradient():
    x = ex.zeros(2, requires_grad=True)
    chosen = ex.combinations(x, 1 << 40)
    assert chosen.shape == (0, 1 << 40)
    assert chosen.requires_grad
