"""Write scripts/site/torch_names.txt, the public names of the PyTorch that is installed.

A line that ends in a colon is a module or class, the lines below it are its names. The site shows beside each what
Extempo has of it, and does not need PyTorch for that.

python scripts/make_torch_names.py            write the file
python scripts/make_torch_names.py --check    exit with 1 if it is out of date
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

FILE = Path(__file__).parent / "site" / "torch_names.txt"

# What users of PyTorch's documentation meet, in its order.
PLACES = (
    "Tensor nn nn.Module nn.functional nn.init nn.utils nn.utils.rnn nn.utils.parametrize nn.utils.parametrizations "
    "nn.utils.prune nn.utils.stateless nn.attention nn.parallel optim optim.Optimizer optim.lr_scheduler "
    "optim.swa_utils autograd autograd.functional autograd.forward_ad autograd.graph autograd.profiler func linalg "
    "special fft signal.windows distributions distributions.constraints distributions.transforms distributions.kl "
    "utils.data utils.checkpoint utils.dlpack utils.tensorboard utils.benchmark random serialization nested masked "
    "sparse amp compiler jit fx export onnx profiler hub library overrides package testing futures multiprocessing "
    "distributed accelerator cpu cuda cuda.amp mps xpu backends backends.cpu backends.cuda backends.cudnn "
    "backends.mkl backends.mkldnn backends.mps backends.openmp backends.opt_einsum quantization types version"
)
INTERNAL = ("cudnn_", "miopen_", "mkldnn_", "fbgemm_")  # kernels of one library, which documented functions call
HELPERS = ("ContextProp", "GenericModule", "PropModule", "CudnnModule", "MkldnnModule", "OptEinsumModule")


def resolve(path: str) -> Any:
    """A module, or a class in one."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        package, _, name = path.rpartition(".")
        return getattr(importlib.import_module(package), name)


def names_of(place: Any) -> Iterator[str]:
    """Public names that are PyTorch's own: what a module imported from elsewhere is not."""
    if not isinstance(place, ModuleType):
        yield from (name for name in dir(place) if not name.startswith("_"))
        return
    stated = set(getattr(place, "__all__", ()))
    wrapped = getattr(place, "m", place)  # torch.backends.cudnn is an object around the module
    switches = {name for name, value in vars(type(place)).items() if type(value).__name__ == "ContextProp"}
    for name in stated | switches | set(dir(wrapped)):
        value = getattr(wrapped, name, None)
        if name.startswith(("_", *INTERNAL)) or isinstance(value, ModuleType):
            continue
        if type(value).__name__ == "pybind11_type" or name in HELPERS or (value is torch.Tensor and place is not torch):
            continue  # pybind11_type: C++ objects, which Python code does not make
        if name in stated | switches or _belongs_to(value, wrapped):
            yield name


def _belongs_to(value: Any, place: ModuleType) -> bool:
    if place is torch:
        home = getattr(value, "__module__", None) or "torch"
        return home.split(".")[0] == "torch" and type(value).__module__ not in ("typing", "__future__")
    if inspect.isbuiltin(value):
        return (value.__module__ or "torch").split(".")[0] == "torch"
    is_defined = inspect.isroutine(value) or inspect.isclass(value)
    return is_defined and not hasattr(place, "__all__") and value.__module__.startswith(place.__name__)


def text() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated names warn when they are asked for
        lines = [f"# PyTorch {torch.__version__.split('+')[0]}; written by scripts/make_torch_names.py"]
        for path in ["torch", *(f"torch.{place}" for place in PLACES.split())]:
            names = sorted(names_of(resolve(path)), key=lambda name: (name.lower(), name))
            lines += ["", f"{path}:", *textwrap.wrap(" ".join(names), 118, break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


def main() -> int:
    if "--check" in sys.argv:
        fresh = FILE.exists() and FILE.read_text() == text()
        print("up to date" if fresh else f"{FILE.name} is out of date: run python scripts/make_torch_names.py")
        return 0 if fresh else 1
    FILE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
