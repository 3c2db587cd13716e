"""Write src/extempo/core/tensor_methods.pyi: the types of the methods that ops give to Tensor.

python scripts/make_stubs.py            write the file
python scripts/make_stubs.py --check    exit with 1 if it is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any, get_overloads

STUB = Path(__file__).parents[1] / "src" / "extempo" / "core" / "tensor_methods.pyi"

HEADER = '''"""The methods that ops give to Tensor. Written by scripts/make_stubs.py; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

from ..autograd.hooks import RemovableHandle
from ..ops.counting import Histogram
from ..ops.decompositions import QrResult
from ..ops.factors import LuFactorExResult, LuFactorResult
from ..ops.linalg_older import GeqrfResult, OlderSvdResult, TriangularSolveResult
from ..ops.matrices import SlogdetResult
from ..ops.reduce import MinMax, ValuesIndices
from ..ops.rounding import FrexpResult
from .device import device as _device
from .device import layout as _layout
from .tensor import Tensor
from .types import Number, Size
from .types import dtype as _dtype

_F = TypeVar("_F", bound=Callable[..., Any])

def method(fn: _F, name: str | None = None) -> _F: ...

class TensorMethods:
    __slots__ = ()
'''

# Names that an annotation may use, as the stub knows them. A class body has methods called bool, int, float and type.
KNOWN = {
    "bool": "builtins.bool",
    "int": "builtins.int",
    "float": "builtins.float",
    "type": "builtins.type",
    "str": "builtins.str",
    "tuple": "builtins.tuple",
    "list": "builtins.list",
    "dict": "builtins.dict",
    "dtype": "_dtype",
    "Operand": "Tensor | Number",
    "Dims": "builtins.int | Sequence[builtins.int] | None",
    "Tensor": "Tensor",
    "Any": "Any",
    "None": "None",
    "Sequence": "Sequence",
    "Callable": "Callable",
    "Number": "Number",
    "Size": "Size",
    "Literal": "Literal",
    "False": "False",
    "True": "True",
    "No": "Literal[False]",
    "Yes": "Literal[True]",
    "device": "_device",
    "layout": "_layout",
    "Hook": "Callable[..., Any]",
    "RemovableHandle": "RemovableHandle",
}
NAMED_RESULTS = re.findall(r"\b\w+(?:Result|Indices)\b|\bMinMax\b|\bHistogram\b", HEADER)
KNOWN |= {name: name for name in NAMED_RESULTS}

# Operators are written alike, so that x += y and x + y agree for mypy; == and != must take what object's take.
OPERATOR_RESULT = {"__eq__": "Any", "__ne__": "Any"}


def annotation(text: Any) -> str:
    """An annotation as the stub can say it; Any where it uses names the stub does not know."""
    if text is inspect.Parameter.empty:
        return "Any"
    text = text if isinstance(text, str) else getattr(text, "__name__", "Any")
    text = re.sub(r"\b[a-z]\w*\.(?=[A-Z])", "", text)  # a class may be named with its module
    if set(re.findall(r"[A-Za-z_][\w.]*", text)) - KNOWN.keys():
        return "Any"
    return re.sub(r"[A-Za-z_]\w*", lambda m: KNOWN[m[0]], text)


def returned(fn: Any) -> str:
    """The return type."""
    return annotation(inspect.signature(fn).return_annotation)


def property_type(name: str, getter: Any) -> str:
    """The type of a property; of one that is the same for every tensor, and has no annotation, that of its value."""
    import extempo

    if inspect.signature(getter).return_annotation is inspect.Signature.empty:
        return annotation(type(getattr(extempo.zeros(1), name)))
    return returned(getter)


def signature(fn: Any) -> str:
    """The parameters, with the first one called self."""
    parts: list[str] = []
    star = False
    for i, p in enumerate(inspect.signature(fn).parameters.values()):
        if i == 0:
            parts.append("self")
            continue
        if p.name.startswith("_"):  # for old forms of calls
            continue
        if p.kind is p.VAR_POSITIONAL:
            parts.append(f"*{p.name}: {annotation(p.annotation)}")
            star = True
        elif p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: {annotation(p.annotation)}")
        else:
            if p.kind is p.KEYWORD_ONLY and not star:
                parts.append("*")
                star = True
            default = "" if p.default is p.empty else " = ..."
            parts.append(f"{p.name}: {annotation(p.annotation)}{default}")
    return ", ".join(parts)


def n_positional(fn: Any) -> int:
    """How many arguments can be given by position."""
    return sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in inspect.signature(fn).parameters.values())


def stub() -> str:
    """The text of the stub file."""
    import extempo
    from extempo.core.tensor_methods import TensorMethods

    own = vars(extempo.Tensor)
    lines = [HEADER]
    for name, value in sorted(vars(TensorMethods).items()):
        if name in own or name in ("__module__", "__doc__", "__slots__", "__firstlineno__", "__static_attributes__"):
            continue
        if isinstance(value, property):
            lines.append(f"    @property\n    def {name}(self) -> {property_type(name, value.fget)}: ...\n")
        elif name.startswith("__") and name != "__getitem__" and n_positional(value) == 2:
            lines.append(f"    def {name}(self, other: Any) -> {OPERATOR_RESULT.get(name, 'Tensor')}: ...\n")
        else:
            forms = get_overloads(value)
            for form in forms or [value]:
                mark = "    @overload\n" if forms else ""
                lines.append(f"{mark}    def {name}({signature(form)}) -> {returned(form)}: ...\n")
    return "".join(lines)


def main() -> int:
    text = stub()
    if "--check" in sys.argv:
        fresh = STUB.exists() and STUB.read_text() == text
        print("up to date" if fresh else f"{STUB.name} is out of date: run python scripts/make_stubs.py")
        return 0 if fresh else 1
    STUB.write_text(text)
    print(f"wrote {STUB.name}: {text.count('def ')} definitions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
