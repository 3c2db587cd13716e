"""Names that are not there: misspelt ones get the nearest suggested, refused ones say why when they are used."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import extempo as ex
from extempo import nn
from extempo.core.absent_names import (
    RefusedName,
    check_keywords,
    did_you_mean,
    explain_absent,
    module_getattr,
    nearest,
    refused,
)

NAMESPACES = [
    "extempo", "extempo.amp", "extempo.autograd", "extempo.autograd.function", "extempo.autograd.functional",
    "extempo.autograd.graph", "extempo.backends", "extempo.cpu", "extempo.data", "extempo.distributions",
    "extempo.distributions.constraints", "extempo.distributions.transforms", "extempo.func", "extempo.inspect",
    "extempo.linalg", "extempo.masked", "extempo.metrics", "extempo.nested", "extempo.nn", "extempo.nn.functional",
    "extempo.nn.init", "extempo.nn.utils", "extempo.nn.utils.parametrizations", "extempo.nn.utils.parametrize",
    "extempo.nn.utils.rnn", "extempo.optim", "extempo.optim.lr_scheduler", "extempo.optim.swa_utils", "extempo.random",
    "extempo.serialization", "extempo.signal", "extempo.signal.windows", "extempo.special", "extempo.testing",
    "extempo.train", "extempo.utils", "extempo.utils.checkpoint", "extempo.utils.data",
]  # fmt: skip


def misspelt(name):
    """With two letters in the middle exchanged, and one left out if they are equal."""
    k = len(name) // 2
    return name[: k - 1] + name[k] + name[k - 1] + name[k + 1 :] if name[k] != name[k - 1] else name[:k] + name[k + 1 :]


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_public_namespace_suggests_the_nearest_name(namespace):
    module = importlib.import_module(namespace)
    names = [name for name in getattr(module, "__all__", None) or dir(module) if len(name) > 4 and name[0] != "_"]
    name = max(names, key=len)
    with pytest.raises(AttributeError, match=rf"module '{namespace}' has no attribute '.*'; did you mean '{name}'\?"):
        getattr(module, misspelt(name))


@pytest.mark.parametrize(
    ("module", "typo", "meant"),
    [
        (ex, "tensr", "tensor"),
        (nn, "Linaer", "Linear"),
        (nn.functional, "rleu", "relu"),
        (ex.optim, "Adm", "Adam"),
        (ex.linalg, "slove", "solve"),
        (ex.distributions, "Norml", "Normal"),
        (ex.train, "Trainr", "Trainer"),
        (ex.metrics, "Acuracy", "Accuracy"),
        (nn, "LINEAR", "Linear"),
        (nn, "gru", "GRU"),
    ],
)
def test_common_slips_are_understood(module, typo, meant):
    with pytest.raises(AttributeError, match=rf"did you mean '{meant}'\?"):
        getattr(module, typo)


def test_python_suggests_methods_of_tensors():
    # A __getattr__ of Tensor would slow every attribute down; Python looks for at most 750 names, when it ends.
    program = "import extempo as ex; ex.ones(2).sofmax"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "Did you mean: 'softmax'?" in ended.stderr


def test_what_looks_like_nothing_gets_no_suggestion():
    assert nearest("zzzz", ["softmax", "relu"]) == []
    assert did_you_mean("zzzz", ["softmax", "relu"]) == ""
    assert not hasattr(ex, "zzzzzzzz")


def test_several_near_names_come_in_order():
    assert nearest("relu", ["prelu", "relu6", "softmax"], n=3) == ["relu6", "prelu"]


def test_a_wrong_keyword_of_a_layer_or_optimizer_gets_the_nearest_suggested():
    with pytest.raises(TypeError, match=r"Linear: there is no argument 'bais'; did you mean 'bias'\? \(Linear takes"):
        nn.Linear(3, 4, bais=False)
    with pytest.raises(TypeError, match=r"LeakyReLU: .* did you mean 'negative_slope'\?"):
        nn.LeakyReLU(negativ_slope=0.1)
    with pytest.raises(TypeError, match=r"SGD: .* did you mean 'momentum'\?"):
        ex.optim.SGD([ex.ones(1, requires_grad=True)], momentm=0.9)


def test_classes_of_users_are_checked_by_their_own_constructor():
    class Net(nn.Module):
        def __init__(self, width, *, depth=2):
            super().__init__()

    class Free(nn.Module):
        def __init__(self, **options):
            super().__init__()
            self.options = options

    Net(3, depth=1)
    assert Free(anything=1).options == {"anything": 1}
    with pytest.raises(TypeError, match=r"Net: .* did you mean 'depth'\?"):
        Net(3, dpeth=1)
    check_keywords(int, ["base"])  # its constructor is written in C, and says so itself


def test_a_class_beside_module_keeps_its_own_new():
    class Kept:
        def __new__(cls, *args, **kwargs):
            made = super().__new__(cls)
            made.__dict__["arguments"] = args, kwargs
            return made

    class Net(nn.Module, Kept):
        def __init__(self, width):
            super().__init__()

    assert Net(width=3).arguments == ((), {"width": 3})


def test_layers_keep_their_signatures():
    assert list(inspect.signature(nn.Linear).parameters)[:3] == ["in_features", "out_features", "bias"]
    assert next(iter(inspect.signature(ex.optim.SGD).parameters)) == "params"


# ---- refused


def test_a_refused_name_can_be_subclassed_and_asked_about_but_not_made():
    stands_for = refused("torch.fx.Tracer", "there are no symbols")
    own = type("Own", (stands_for,), {})
    assert not isinstance(3, stands_for)
    assert issubclass(own, stands_for)
    for cls in (stands_for, own):
        with pytest.raises(RefusedName, match=r"^torch\.fx\.Tracer: there are no symbols$"):
            cls()
    assert (stands_for.__name__, stands_for.__module__) == ("Tracer", "torch.fx")
    assert repr(stands_for) == "<refused: torch.fx.Tracer: there are no symbols>"
    assert stands_for is refused("torch.fx.Tracer", "there are no symbols")


def test_its_attributes_refuse_too_but_not_those_that_python_asks_for():
    stands_for = refused("torch.fx.Tracer", "there are no symbols")
    with pytest.raises(RefusedName):
        _ = stands_for.trace
    assert not hasattr(stands_for, "__wrapped__")
    assert stands_for[int] is stands_for


def test_a_module_refuses_by_its_table_when_a_name_is_used(monkeypatch):
    module = ModuleType("extempo.some")
    module.New = object()
    monkeypatch.setitem(sys.modules, "extempo.some", module)
    explain_absent("extempo.some", {"Old": "use New"})
    from extempo.some import Old

    assert Old is module.Old
    with pytest.raises(RefusedName, match=r"^extempo\.some\.Old: use New$") as caught:
        Old()
    assert caught.value.name == "Old"
    with pytest.raises(AttributeError, match=r"^module 'extempo\.some' has no attribute 'Nwe'; did you mean 'New'\?$"):
        module_getattr("extempo.some")("Nwe")


REFUSED = [
    ("func", "functionalize"),
    ("masked", "MaskedTensor"),
    ("autograd.graph", "increment_version"),
    ("autograd", "NestedIOFunction"),
    ("autograd.function", "InplaceFunction"),
    ("utils.data", "IterDataPipe"),
    ("nn.utils", "fuse_conv_bn_eval"),
    ("utils.checkpoint", "CheckpointPolicy"),
    ("testing", "make_tensor"),
    ("optim", "SparseAdam"),
    ("distributions", "GeneralizedPareto"),
]


@pytest.mark.parametrize(("namespace", "name"), REFUSED, ids=str)
def test_names_of_pytorch_are_refused_in_words_by_their_namespace(namespace, name):
    stands_for = getattr(importlib.import_module(f"extempo.{namespace}"), name)
    with pytest.raises(RefusedName, match=rf"^extempo\.{namespace}\.{name}: .{{20}}"):
        stands_for()


@pytest.mark.conformance
def test_what_namespaces_refuse_is_pytorchs():
    pytest.importorskip("torch", reason="compares the names with PyTorch's: pip install -e '.[conformance]'")
    for namespace, name in REFUSED:
        assert hasattr(importlib.import_module(f"torch.{namespace}"), name), (namespace, name)


def test_letters_that_changed_places_are_the_likeliest_mistake():
    assert nearest("Adma", ["Adamax", "Adam", "AdamW"]) == ["Adam"]
    assert nearest("tesnor", ["tensors", "tensor"]) == ["tensor"]
