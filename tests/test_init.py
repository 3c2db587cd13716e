"""What `import extempo` loads, and what it loads when it is first asked for."""

from __future__ import annotations

import ast
import importlib
import pickle
import pkgutil
import random
import subprocess
import sys
from pathlib import Path

import pytest

import extempo as ex


def all_modules() -> list[str]:
    names = [m.name for m in pkgutil.walk_packages(ex.__path__, "extempo.")]
    return [n for n in names if n not in ("extempo.__main__", "extempo.as_torch")]  # these act when they are imported


def in_a_fresh_process(code: str) -> str:
    """What the code prints in a process that has imported nothing yet."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("seed", range(4))
def test_modules_import_in_any_order_and_leave_the_same_names(seed):
    order = all_modules()
    random.Random(seed).shuffle(order)
    code = (
        f"import importlib\nfor m in {order!r}: importlib.import_module(m)\n"
        "import extempo as ex\n"
        "print(sorted((n, type(getattr(ex, n)).__name__) for n in dir(ex) if not n.startswith('_')))"
    )
    out = in_a_fresh_process(code)
    for name in all_modules():
        importlib.import_module(name)
    assert out == str(sorted((n, type(getattr(ex, n)).__name__) for n in dir(ex) if not n.startswith("_")))


def test_no_module_has_the_name_of_a_public_function():
    for name in all_modules():
        importlib.import_module(name)
    for name in all_modules():
        package, _, last = name.rpartition(".")
        found = getattr(sys.modules[package], last, None)
        assert found is sys.modules[name], f"{name} is a module, but {package}.{last} is {found!r}"


def test_importing_extempo_does_not_import_the_command_line():
    heavy = ("click", "rich", "llvmlite", "greenlet", "torch", "matplotlib", "pyarrow", "tensorboard", "IPython")
    assert in_a_fresh_process(f"import sys, extempo; print([m for m in {heavy} if m in sys.modules])") == "[]"


# What takes milliseconds to load and few programs need from the start.
LOADED_LATER = [
    *("extempo.amp", "extempo.data", "extempo.distributions", "extempo.func", "extempo.nn", "extempo.optim"),
    *("extempo.serialization", "extempo.testing", "extempo.utils"),
    *("numpy.fft", "numpy.polynomial", "numpy.random", "safetensors"),
    *("asyncio", "concurrent", "dataclasses", "email", "hashlib", "importlib.metadata", "json", "logging"),
    *("multiprocessing", "pathlib", "pickletools", "secrets", "socket", "tempfile", "unittest", "zipfile"),
]


def test_importing_extempo_loads_nothing_heavy_beyond_numpy():
    code = (
        "import sys, numpy, ml_dtypes; before = set(sys.modules); import extempo\n"
        f"print([m for m in {LOADED_LATER} if m in sys.modules and m not in before])"
    )
    assert in_a_fresh_process(code) == "[]"


def test_importing_extempo_fills_the_registry_and_the_methods_of_tensors():
    code = (
        "import importlib, extempo as ex; from extempo.core.op import REGISTRY\n"
        "ops, methods = set(REGISTRY), set(dir(ex.Tensor))\n"
        f"for m in {all_modules()!r}: importlib.import_module(m)\n"
        "print(sorted(set(REGISTRY) - ops), sorted(set(dir(ex.Tensor)) - methods))"
    )
    assert in_a_fresh_process(code) == "[] []"


def test_names_that_are_loaded_on_first_use_are_imported_for_type_checkers():
    code = "import extempo as ex; print(sorted(set(ex.__all__) - set(vars(ex))))"
    later = ast.literal_eval(in_a_fresh_process(code))
    declared = []
    for node in ast.parse(Path(ex.__file__).read_text()).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            declared += [alias.name for statement in node.body for alias in statement.names]
    assert later == sorted(declared)


@pytest.mark.parametrize(
    "code",
    [
        "import extempo as ex; print(ex.nn, ex.vmap, ex.load)",
        "import extempo.nn; print(extempo.nn, extempo.vmap, extempo.load)",
        "from extempo import nn, vmap, load; print(nn, vmap, load)",
        "from extempo import *; print(nn, vmap, load)",
        "import extempo as ex; print(*(getattr(ex, n) for n in dir(ex) if n in ('nn', 'vmap', 'load')))",
    ],
)
def test_what_is_loaded_on_first_use_is_there_by_every_way_of_asking(code):
    printed = in_a_fresh_process(code)
    for expected in ("<module 'extempo.nn'", "<function vmap", "<function load"):
        assert expected in printed


def test_a_module_unpickles_where_only_extempo_is_imported():
    data = pickle.dumps(ex.nn.Linear(2, 3))
    code = f"import pickle, extempo; print(pickle.loads({data!r}))"
    assert in_a_fresh_process(code) == str(ex.nn.Linear(2, 3))
