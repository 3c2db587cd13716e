"""The same call in other words: by keyword, by NumPy's names, with other kinds of numbers, with `out=`.

Samples of op_db are called in every such form, as function and as method. Where PyTorch takes the form, Extempo takes
it, and results agree.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.conformance
torch = pytest.importorskip("torch", reason="conformance needs PyTorch: pip install -e '.[conformance]'")
pytest.importorskip("expecttest", reason="PyTorch's op_db needs expecttest: pip install -e '.[conformance]'")

import extempo as ex  # noqa: E402 - the modules below need PyTorch

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from conformance import harness  # noqa: E402 - needs PyTorch, and the path above
from conformance.compare import Mismatch, match_structure, match_values  # noqa: E402
from conformance.convert import LeftOut, Twins, Unmappable, lookup, refuse_by_design  # noqa: E402

N_SAMPLES = 3  # of different kinds, for each op
NUMPYS = {"dim": "axis", "keepdim": "keepdims"}

# Draws cannot be compared, and of a matrix's factors and of uninitialised memory only some numbers are determined.
ONLY_SHAPES = {
    "bernoulli",
    "cauchy",
    "dropout",
    "eigh",
    "empty",
    "exponential",
    "fractional_max",
    "geometric",
    "log_normal",
    "lu",
    "multinomial",
    "normal",
    "poisson",
    "pca_lowrank",
    "qr",
    "rand",
    "svd",
    "uniform",
}

# (function, start of the form): why Extempo does not take it.
REFUSED = {
    ("max", "argument 1 as a 0-dim tensor"): "two tensors mean the larger of each",
    ("min", "argument 1 as a 0-dim tensor"): "two tensors mean the smaller of each",
    ("normal", "argument"): "a tensor as mean or std gives the shape, and size= is refused beside it",
    ("split_with_sizes_copy", "with out="): "PyTorch returns None, and Extempo what it has written",
    ("unbind_copy", "with out="): "PyTorch returns None, and Extempo what it has written",
    ("nn.functional.embedding_bag", ""): "its OpInfo has the first two arguments exchanged",
    ("as_strided", ""): "the samples look past the memory that is given",
    ("as_strided_copy", ""): "the samples look past the memory that is given",
    ("as_strided_scatter", ""): "the samples look past the memory that is given",
}


def sample_calls(op):
    """(args, kwargs) of the first samples that differ in the number and the types of arguments."""
    dtypes = op.supported_dtypes("cpu")
    dtype = next((d for d in (torch.float32, torch.int64, torch.bool) if d in dtypes), None)
    if dtype is None:
        return
    seen = set()
    for sample in itertools.islice(op.sample_inputs("cpu", dtype), 40):
        args, kwargs = (sample.input, *sample.args), sample.kwargs
        kinds = (*map(type, args), *((name, type(value)) for name, value in kwargs.items()))
        if kinds not in seen and len(seen) < N_SAMPLES:
            seen.add(kinds)
            yield args, kwargs


def parameter_names(path):
    """The names of a native function's parameters, one tuple for each overload."""
    name = path.removeprefix("Tensor.").removeprefix("nn.functional.").replace(".", "_")
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return {
        tuple("input" if a.name == "self" else a.name for a in schema.arguments)
        for schema in schemas
        # Others are of TorchScript, or of names of dimensions.
        if "Dimname" not in str(schema) and any("Tensor" in str(a.type) for a in schema.arguments)
    }


def other_kinds(value):
    """Values that mean the same: (what, a function of the library that makes it)."""
    if isinstance(value, bool):
        yield "NumPy's bool", lambda lib: np.bool_(value)
    elif isinstance(value, int):
        yield "NumPy's int", lambda lib: np.int64(value)
        yield "a 0-dim tensor", lambda lib: lib.tensor(value)
    elif isinstance(value, float):
        yield "NumPy's float", lambda lib: np.float32(value)
        yield "a 0-dim tensor", lambda lib: lib.tensor(value)
        if math.isfinite(value) and value == int(value):
            yield "an int", lambda lib: int(value)
    elif isinstance(value, list | tuple) and value and all(type(item) is int for item in value):
        yield "a list", lambda lib: list(value)
        yield "a Size", lambda lib: lib.Size(value)
        yield "NumPy's ints", lambda lib: [np.int64(item) for item in value]
        yield "0-dim tensors", lambda lib: tuple(lib.tensor(item) for item in value)


def forms(path, args, kwargs):
    """(words, how to put args and kwargs of a library in this form)."""
    is_method = path.startswith("Tensor.")
    for place, value in enumerate(args):
        for what, make in other_kinds(value):
            yield (
                f"argument {place} as {what}",
                lambda lib, a, k, i=place, make=make: ((*a[:i], make(lib), *a[i + 1 :]), k),
            )
    for name, value in kwargs.items():
        for what, make in other_kinds(value):
            yield f"{name}= as {what}", lambda lib, a, k, n=name, make=make: (a, {**k, n: make(lib)})
    for names in parameter_names(path):
        if len(names) < len(args) or not kwargs.keys() <= set(names) or (is_method and names[0] != "input"):
            continue
        for first in range(is_method, len(args)):
            by_name = dict(zip(names[first:], range(first, len(args)), strict=False))
            yield f"by keywords {list(by_name)}", lambda lib, a, k, f=first, by=by_name: (a[:f], _named(a, k, by))
            if not NUMPYS.keys().isdisjoint({*by_name, *kwargs}):
                yield (
                    f"by NumPy's keywords from {first} on",
                    lambda lib, a, k, f=first, by=by_name: (
                        a[:f],
                        {NUMPYS.get(name, name): value for name, value in _named(a, k, by).items()},
                    ),
                )


def _named(args, kwargs, places):
    return {name: args[place] for name, place in places.items()} | kwargs


def answer(function, args, kwargs):
    try:
        return function(*args, **kwargs)
    except Exception as error:  # whatever a library says of arguments that it does not take
        return error


def compare(path, args, kwargs, form):
    """PyTorch's result, None where it refuses the form or Extempo has no counterpart; Mismatch where ours differs."""
    try:
        twins = Twins((args, kwargs))
    except (LeftOut, Unmappable):
        return None
    with torch.no_grad(), ex.no_grad():
        theirs = answer(lookup(torch, path), *form(torch, *twins.theirs))
        if isinstance(theirs, Exception):
            return None
        try:
            refuse_by_design(theirs)
        except LeftOut:
            return None
        ours = answer(lookup(ex, path), *form(ex, *twins.ours))
    if isinstance(ours, Exception):
        raise Mismatch(f"{type(ours).__name__}: {ours}")
    match_structure(theirs, ours)
    if not any(word in path for word in ONLY_SHAPES):
        match_values(path, theirs, ours, elementwise=False)
    return theirs


def with_out(theirs):
    """The form of the call that has its results written, None if there is nothing to write to."""
    results = theirs if isinstance(theirs, tuple) else (theirs,)
    if not results or not all(isinstance(result, torch.Tensor) for result in results):
        return None
    names = [str(result.dtype).removeprefix("torch.") for result in results]

    def form(lib, args, kwargs):
        outs = tuple(lib.empty(0, dtype=getattr(lib, name)) for name in names)
        return args, {**kwargs, "out": outs if isinstance(theirs, tuple) else outs[0]}

    return form


def paths_of(name):
    """The function, the method and the method in place, as far as both libraries have them."""
    paths = [name] if "." in name else [name, f"Tensor.{name}", f"Tensor.{name}_"]
    return [p for p in paths if callable(lookup(torch, p)) and callable(lookup(ex, p))]


def differences(name):
    for op, path in itertools.product(harness.OPS[name], paths_of(name)):
        for args, kwargs in sample_calls(op):
            usual = compare(path, args, kwargs, lambda lib, a, k: (a, k))
            if usual is None:
                continue
            spoken = list(forms(path, args, kwargs))
            if not path.endswith("_") and (out := with_out(usual)) is not None:
                spoken.append(("with out=", out))
            for words, form in spoken:
                try:
                    compare(path, args, kwargs, form)
                except Mismatch as mismatch:
                    yield path, words, str(mismatch)


def is_refused(path, words):
    name = path.removeprefix("Tensor.").rstrip("_")
    return any(name == function and words.startswith(start) for function, start in REFUSED)


@pytest.mark.parametrize("name", sorted(name for name in harness.OPS if not name.startswith(("_", "torch.", "ops."))))
def test_a_call_means_the_same_in_every_form_that_pytorch_takes(name):
    if (name, "") in REFUSED:
        pytest.skip(REFUSED[name, ""])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [difference for difference in differences(name) if not is_refused(*difference[:2])]
    assert found == []
