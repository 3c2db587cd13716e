"""Constructors that are given what they cannot take: whoever catches PyTorch's kind of error catches Extempo's."""

from __future__ import annotations

import builtins

import pytest

import extempo as ex

pytestmark = pytest.mark.conformance
torch = pytest.importorskip("torch", reason="conformance needs PyTorch: pip install -e '.[conformance]'")

LAYERS = [
    ("Dropout", (1.5,), {}),
    ("Dropout2d", (-0.1,), {}),
    ("AlphaDropout", (2.0,), {}),
    ("Conv2d", (3, 4, 3), {"groups": 2}),
    ("Conv2d", (4, 3, 3), {"groups": 2}),
    ("Conv2d", (4, 4, 3), {"padding_mode": "mirror"}),
    ("Conv2d", (4, 4, 3), {"padding": "some"}),
    ("Conv2d", (4, 4, 3), {"padding": "same", "stride": 2}),
    ("ConvTranspose2d", (4, 4, 3), {"padding_mode": "reflect"}),
    ("LSTM", (3, 4), {"dropout": 1.5}),
    ("LSTM", (3, 4), {"proj_size": 4}),
    ("LSTM", (3, 0), {}),
    ("RNN", (3, 4), {"nonlinearity": "sine"}),
    ("GroupNorm", (3, 4), {}),
    ("Hardtanh", (1.0, -1.0), {}),
    ("TripletMarginLoss", (-1.0,), {}),
    ("MultiMarginLoss", (3,), {}),
    ("AdaptiveLogSoftmaxWithLoss", (4, 5, [5]), {}),
    ("AdaptiveLogSoftmaxWithLoss", (4, 5, [3, 2]), {}),
    ("FractionalMaxPool2d", (2,), {}),
    ("FractionalMaxPool2d", (2,), {"output_ratio": 1.5}),
    ("Unflatten", (1, "size"), {}),
    ("Bilinear", (0, 2, 2), {}),
    ("Linear", (3, 4), {"bais": False}),
    ("Linear", (3,), {}),
    ("EmbeddingBag", (3, 4), {"norm_type": "two", "nonsense": 1}),
    ("TransformerEncoderLayer", (4, 2), {"activation": "tanhh"}),
]

OPTIMIZERS = [
    ("SGD", {"lr": -1.0}),
    ("SGD", {"momentum": -0.5}),
    ("SGD", {"nesterov": True}),
    ("Adam", {"betas": (1.5, 0.9)}),
    ("Adam", {"eps": -1.0}),
    ("Adam", {"momentm": 0.9}),
    ("AdamW", {"weight_decay": -1.0}),
    ("Adadelta", {"rho": 1.5}),
    ("Adagrad", {"lr_decay": -1.0}),
    ("Rprop", {"etas": (0.5, 0.9)}),
    ("LBFGS", {"lr": -1.0}),
]


def builtin_kind(error: BaseException) -> type:
    return next(cls for cls in type(error).__mro__ if cls.__module__ == builtins.__name__)


def raised(make):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the question
        make()
    return caught.value


@pytest.mark.parametrize(("name", "args", "options"), LAYERS, ids=str)
def test_a_layer_refuses_by_pytorchs_kind_of_error(name, args, options):
    theirs = raised(lambda: getattr(torch.nn, name)(*args, **options))
    ours = raised(lambda: getattr(ex.nn, name)(*args, **options))
    # An assert of PyTorch's checks an argument, too.
    expected = ValueError if isinstance(theirs, AssertionError) else builtin_kind(theirs)
    assert isinstance(ours, expected), (repr(ours), repr(theirs))
    assert not isinstance(ours, ex.errors.NumericalError)


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=str)
def test_an_optimizer_refuses_by_pytorchs_kind_of_error(name, options):
    theirs = raised(lambda: getattr(torch.optim, name)([torch.ones(1, requires_grad=True)], **options))
    ours = raised(lambda: getattr(ex.optim, name)([ex.ones(1, requires_grad=True)], **options))
    assert isinstance(ours, builtin_kind(theirs)), (repr(ours), repr(theirs))
    assert not isinstance(ours, ex.errors.NumericalError | ex.errors.ShapeError)


def test_no_parameters_and_a_wrong_gradient_are_named_by_public_kinds():
    assert type(raised(lambda: ex.optim.SGD([]))) is ex.errors.ArgumentError
    assert type(raised(lambda: ex.nn.Dropout(1.5))) is ex.errors.ArgumentError

    class Wrong(ex.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            return g * 3.0

    x = ex.ones(2, dtype=ex.float64, requires_grad=True)
    assert type(raised(lambda: ex.autograd.gradcheck(Wrong.apply, (x,)))) is ex.errors.GradcheckError
