"""How a program is called: names, types and nesting of its arguments and results, and which sizes are dynamic.

An example is one call of the model. Its tensors become named inputs ("x", "state.0"), everything else in it is part of
the program. A size is symbolic where `dynamic` names it or examples differ in it; sizes that are equal in all examples
and have no name of their own are one size.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from ..core.graph import type_text
from ..core.tensor import Tensor, TensorLike
from ..core.types import TensorType
from ..errors import DtypeError, ExportError, ShapeError
from ..ragged_tensors.tensor import RaggedTensor
from .ragged_rows import joined
from .sizes import SizeExpr


class Dim:
    """A size that stays open in a program, by name: PyTorch's `Dim("batch", min=1, max=64)`.

    >>> from extempo.exporting import Dim
    >>> program = ex.program(lambda x: x.sum(0), ex.ones(3, 2), dynamic={"x": {0: Dim("rows", max=8)}})
    >>> program(ex.ones(8, 2))
    tensor([8., 8.])
    """

    AUTO = DYNAMIC = "auto"
    STATIC = None

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier() or name in ("inf", "nan", "max"):
            raise ExportError(f"Dim: a size needs a name of letters, digits and underscores, got {name!r}")
        self.__name__ = name
        self.min = 0 if min is None else int(min)
        self.max = math.inf if max is None else int(max)
        if self.max < self.min:
            raise ExportError(f"Dim: {name} has max {max} below min {min}")

    def _derived(self, other: Any) -> NoReturn:
        raise ExportError(
            f"Dim: a size that is computed from {self.__name__} has no form here; give each open size a name of its "
            "own, and a program finds out what follows from them"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _derived

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


class ProgramInput(NamedTuple):
    """A tensor that a program is called with."""

    name: str
    type: TensorType  # sizes may be expressions

    def __str__(self) -> str:
        return f"{self.name}: {type_text(self.type)}"


# The nesting of arguments or results, in the form in which files hold it: ["tensor", i], ["value", x],
# ["size", text], ["tuple" | "list", [...]], ["dict", [[key, ...], ...]], or ["ragged", [values, offsets, dimension]],
# where the last is a value.
Nesting = list[Any]
PLAIN = (bool, int, float, str, type(None))


def nest(tree: Any, name: str, found: list[tuple[str, Any]], what: str) -> Nesting:
    """The nesting of a tree, whose tensors are put into `found` with their names."""
    if isinstance(tree, RaggedTensor):
        parts = {"values": tree.values(), "offsets": tree._rows.offsets_tensor}
        return [
            "ragged",
            [*(nest(t, f"{name}.{part}", found, what) for part, t in parts.items()), ["value", tree._dim]],
        ]
    if isinstance(tree, Tensor | TensorLike):
        found.append((name, tree))
        return ["tensor", len(found) - 1]
    if isinstance(tree, SizeExpr):
        return ["size", str(tree)]
    if isinstance(tree, dict):
        return ["dict", [[key, nest(v, f"{name}.{key}", found, what)] for key, v in tree.items()]]
    if isinstance(tree, tuple | list):
        kind = "list" if isinstance(tree, list) else "tuple"
        return [kind, [nest(v, f"{name}.{i}", found, what) for i, v in enumerate(tree)]]
    if type(tree) in PLAIN:
        return ["value", tree]
    raise ExportError(
        f"program: {what} {name} is a {type(tree).__name__}; programs take and give tensors, numbers, texts, None, and "
        "tuples, lists and dicts of them"
    )


def rebuilt(nesting: Nesting, tensors: Sequence[Any], sizes: Callable[[str], Any]) -> Any:
    """The tree of that nesting with these tensors."""
    kind, content = nesting
    if kind == "tensor":
        return tensors[content]
    if kind == "size":
        return sizes(content)
    if kind == "dict":
        return {key: rebuilt(part, tensors, sizes) for key, part in content}
    if kind in ("tuple", "list", "ragged"):
        parts = [rebuilt(part, tensors, sizes) for part in content]
        return joined(*parts) if kind == "ragged" else parts if kind == "list" else tuple(parts)
    return content


def taken_apart(nesting: Nesting, value: Any, name: str, found: dict[int, Any]) -> None:
    """Put the tensors of an argument into `found`, by their place; what does not fit the nesting is an error."""
    kind, content = nesting
    if kind == "tensor":
        found[content] = value
    elif kind == "value":
        if value != content or type(value) is not type(content):
            raise ExportError(
                f"program: {name} was {content!r} when the program was made, and is part of it; got {value!r}. Make a "
                "program for each value, or pass a tensor"
            )
    elif kind == "dict":
        if not isinstance(value, dict) or [k for k, _ in content] != list(value):
            raise DtypeError(f"program: {name} must be a dict with the keys {[k for k, _ in content]}")
        for key, part in content:
            taken_apart(part, value[key], f"{name}.{key}", found)
    elif kind == "ragged":
        values, offsets, (_, dim) = content
        if not isinstance(value, RaggedTensor) or value._dim != dim:
            raise DtypeError(
                f"program: {name} must be a ragged tensor whose dimension {dim} is ragged, as ex.ragged makes it; got "
                f"{value._described() if isinstance(value, TensorLike) else type(value).__name__}"
            )
        found[values[1]], found[offsets[1]] = value._flat, value._rows.offsets_tensor
    else:
        if not isinstance(value, tuple | list) or len(value) != len(content):
            raise DtypeError(f"program: {name} must be a {kind} of {len(content)}, got {type(value).__name__}")
        for i, part in enumerate(content):
            taken_apart(part, value[i], f"{name}.{i}", found)


def tensor_places(nesting: Any) -> Iterable[int]:
    """Which tensors are in a nesting, in its order."""
    kind, content = nesting
    if kind == "tensor":
        yield content
    elif kind in ("tuple", "list", "ragged"):
        for part in content:
            yield from tensor_places(part)
    elif kind == "dict":
        for _, part in content:
            yield from tensor_places(part)


def flattened(nesting: Nesting, value: Any, found: list[Any]) -> bool:
    """Append the tensors of an argument, in the order of `nest`; False where it does not fit the nesting.

    The same as `taken_apart`, which says what is wrong, in a fraction of the time.
    """
    kind, content = nesting
    if kind == "tensor":
        found.append(value)
        return True
    if kind == "ragged":
        if type(value) is not RaggedTensor or value._dim != content[2][1]:
            return False
        found += (value._flat, value._rows.offsets_tensor)
        return True
    if kind in ("tuple", "list") and isinstance(value, tuple | list) and len(value) == len(content):
        return all(flattened(part, x, found) for part, x in zip(content, value, strict=True))
    return False


# ---- examples


def signature_of(fn: Any) -> inspect.Signature:
    """The arguments that a function, or the forward of a module, takes."""
    target = fn.forward if hasattr(fn, "forward") else fn
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):
        return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])


def bound_examples(fn: Any, examples: tuple[Any, ...]) -> list[dict[str, Any]]:
    """The arguments of each example by name.

    An example is a tuple of arguments, a dict of them by name, or the one argument. Tensors for a function that takes
    several are one example.
    """
    signature = signature_of(fn)
    if not examples:
        raise ExportError("program: give at least one example of a call: ex.program(model, x), or (x, y) for arguments")
    plain = [e for e in examples if not isinstance(e, tuple | dict)]
    if len(plain) == len(examples) > 1 and not _binds(signature, (plain[0],)) and _binds(signature, tuple(plain)):
        examples = (tuple(plain),)
    calls = []
    for example in examples:
        args, kwargs = (example, {}) if isinstance(example, tuple) else ((), example)
        if not isinstance(example, tuple | dict):
            args, kwargs = (example,), {}
        calls.append(bound_call(fn, args, kwargs))
    if any(list(call) != list(calls[0]) for call in calls):
        raise ExportError("program: the examples have different arguments; give each the same ones")
    return calls


def bound_call(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of one call by name."""
    signature = signature_of(fn)
    try:
        return _flat(signature, signature.bind(*args, **kwargs))
    except TypeError as error:
        raise ExportError(
            f"program: an example does not fit the arguments of the model: {error}; an example is one call: a tuple of "
            "its arguments, ex.program(model, (x, y)), or a dict of them by name"
        ) from None


def _binds(signature: inspect.Signature, args: tuple[Any, ...]) -> bool:
    try:
        signature.bind(*args)
    except TypeError:
        return False
    return True


def _flat(signature: inspect.Signature, arguments: inspect.BoundArguments) -> dict[str, Any]:
    """By name, those of *args as args_0 and so on."""
    named: dict[str, Any] = {}
    for name, value in arguments.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            named.update({f"{name}_{i}": v for i, v in enumerate(value)})
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = value
    return named


def called(fn: Any, arguments: Mapping[str, Any], call: Callable[..., Any] | None = None) -> Any:
    """Call the model with arguments by name; by `call(model, ...)`, if that is given."""
    signature = signature_of(fn)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    rest = dict(arguments)
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            while (
                key := f"{name}_{len([k for k in arguments if k.startswith(name + '_') and k not in rest])}"
            ) in rest:
                args.append(rest.pop(key))
        elif name in rest and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY or kwargs or _has_gap(signature, arguments, name):
                kwargs[name] = rest.pop(name)
            else:
                args.append(rest.pop(name))
    return fn(*args, **kwargs, **rest) if call is None else call(fn, *args, **kwargs, **rest)


def _has_gap(signature: inspect.Signature, arguments: Mapping[str, Any], name: str) -> bool:
    """Whether an argument before this one is left out."""
    before = list(signature.parameters)[: list(signature.parameters).index(name)]
    return any(b not in arguments and not any(k.startswith(b + "_") for k in arguments) for b in before)


# ---- dynamic sizes

Dynamic = dict[tuple[int, int], Dim]  # (input, dimension) -> its size


class RaggedInput(NamedTuple):
    """Which inputs are the values and the offsets of a ragged one, and which dimension of it is ragged."""

    name: str
    values: int
    offsets: int
    dim: int


def ragged_inputs(nestings: Iterable[Nesting], names: Sequence[str]) -> Iterator[RaggedInput]:
    """Those in the nestings of all arguments."""
    for kind, content in nestings:
        if kind == "ragged":
            (_, values), (_, offsets), (_, dim) = content
            yield RaggedInput(names[values].removesuffix(".values"), values, offsets, dim)
        elif kind in ("tuple", "list", "dict"):
            yield from ragged_inputs([part[1] for part in content] if kind == "dict" else content, names)


def dynamic_sizes(
    dynamic: Any,
    names: Sequence[str],
    arguments: Sequence[str],
    examples: Sequence[Sequence[Tensor]],
    ragged: Sequence[RaggedInput] = (),
) -> Dynamic:
    """Which sizes of which inputs are symbolic, and their names. The one of offsets is the number of rows."""
    given = _given(dynamic, names, arguments, ragged)
    always = {(r.values, r.dim - 1): f"{_identifier(r.name)}_total" for r in ragged}
    always |= {(r.offsets, 0): f"{_identifier(r.name)}_rows" for r in ragged}
    dims: dict[str, Dim] = {}
    found: Dynamic = {}
    by_sizes: dict[tuple[int, ...], Dim] = {}
    for i, name in enumerate(names):
        shapes = [tuple(call[i].shape) for call in examples]
        if any(len(shape) != len(shapes[0]) for shape in shapes):
            raise ExportError(f"program: {name} has {len(shapes[0])} dimensions in one example and others in another")
        wanted = {d % len(shapes[0]): w for d, w in given.get(i, {}).items() if _dimension(name, d, len(shapes[0]))}
        for d in range(len(shapes[0])):
            sizes = tuple(shape[d] for shape in shapes)
            differs = len(set(sizes)) > 1
            want = wanted.get(d, Dim.AUTO if differs else None)
            if (want is None or want == Dim.AUTO) and (i, d) in always:
                want = always[i, d]
            if want is None or isinstance(want, int):
                if differs:
                    raise ExportError(f"program: dimension {d} of {name} is static, and the examples have {sizes}")
                continue
            if want == Dim.AUTO:
                dim = by_sizes.get(sizes) if differs else None
                dim = dim or Dim(_free_name(f"{_identifier(name)}_{d}", dims))
                by_sizes.setdefault(sizes, dim)
            else:
                dim = want if isinstance(want, Dim) else Dim(str(want))
            dims.setdefault(dim.__name__, dim)
            found[i, d] = dims[dim.__name__]
    return found


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def _free_name(name: str, taken: Iterable[str]) -> str:
    return name if name not in taken else _free_name(name + "_", taken)


def _dimension(name: str, d: Any, ndim: int) -> bool:
    if not isinstance(d, int) or not -ndim <= d < ndim:
        raise ExportError(f"program: dynamic names dimension {d!r} of {name}, which has {ndim}")
    return True


def _given(
    dynamic: Any, names: Sequence[str], arguments: Sequence[str], ragged: Sequence[RaggedInput]
) -> dict[int, dict[int, Any]]:
    """What `dynamic` says of each input: dicts or sequences by dimension, by name or position of the argument."""
    if dynamic is None:
        return {}
    if isinstance(dynamic, tuple | list):
        if len(dynamic) > len(arguments):
            raise ExportError(f"program: dynamic has {len(dynamic)} entries for {len(arguments)} arguments")
        dynamic = dict(zip(arguments, dynamic, strict=False))
    if not isinstance(dynamic, dict):
        raise ExportError(f"program: dynamic must be a dict by argument, got {type(dynamic).__name__}")
    found: dict[int, dict[int, Any]] = {}
    of_ragged = {r.name: r for r in ragged}
    for name, entry in dynamic.items():
        for full, dims in _by_input(name, entry):
            if full in of_ragged:
                r = of_ragged[full]
                found[r.offsets] = {0: dims[0]} if 0 in dims else {}
                found[r.values] = {d - 1 if d > 0 else d: want for d, want in dims.items() if d != 0}
                continue
            if full not in names:
                raise ExportError(
                    f"program: dynamic names {full!r}, and the tensors among the arguments are "
                    f"{', '.join(names) or 'none'}; numbers and lists of them are constants of a program, so pass "
                    "ex.tensor(...) for what is to differ between calls"
                )
            found[names.index(full)] = dims
    return found


def _by_input(name: str, entry: Any) -> Iterable[tuple[str, dict[int, Any]]]:
    """The entry of an argument, taken apart where the argument is nested."""
    if entry is None:
        return
    if isinstance(entry, dict):
        if all(isinstance(d, int) for d in entry):
            yield name, entry
            return
        for key, part in entry.items():
            yield from _by_input(f"{name}.{key}", part)
    elif isinstance(entry, tuple | list):
        if any(isinstance(part, dict | tuple | list) for part in entry):
            for i, part in enumerate(entry):
                yield from _by_input(f"{name}.{i}", part)
        else:
            yield name, dict(enumerate(entry))
    else:
        raise ExportError(
            f'program: dynamic says {entry!r} of {name}; write {{{name!r}: {{0: "batch"}}}}, with a name for each '
            "dimension that stays open"
        )


def named_size(size: Any) -> tuple[str, int]:
    """The name of a size of an input, and what is added to it: offsets have one entry more than there are rows."""
    (name,) = size.names()
    return name, size.evaluate({name: 0})


def _bound(expected: SizeExpr, size: int, sizes: dict[str, int]) -> int:
    """What the size must be; that of a name that is met for the first time may be any."""
    name, added = named_size(expected)
    return sizes.setdefault(name, size - added) + added


def bind_sizes(inputs: Sequence[ProgramInput], tensors: Sequence[Any], dims: Mapping[str, Dim]) -> dict[str, int]:
    """The named sizes of a call; tensors that do not fit are an error."""
    sizes: dict[str, int] = {}
    for spec, tensor in zip(inputs, tensors, strict=True):
        if not isinstance(tensor, Tensor):
            raise DtypeError(f"program: {spec.name} must be a tensor, got {type(tensor).__name__}")
        if tensor.dtype is not spec.type.dtype or tensor.ndim != len(spec.type.shape):
            raise DtypeError(f"program: expected {spec}, got {tensor._type}")
        for d, (size, expected) in enumerate(zip(tensor._type.shape, spec.type.shape, strict=True)):
            wanted = expected if isinstance(expected, int) else _bound(expected, size, sizes)
            if size != wanted:
                raise ShapeError(
                    f"program: expected {spec}, got {tensor._type}: dimension {d} must be {wanted}"
                    f"{'' if isinstance(expected, int) else f', as the size {expected} is elsewhere'}"
                )
    for name, size in sizes.items():
        if size < dims[name].min or (dims[name].max != math.inf and size > dims[name].max):
            least, most = dims[name].min, dims[name].max
            limits = f"at least {least}" if most == math.inf else f"from {least} to {most}"
            raise ShapeError(f"program: the size {name} is {size}, and must be {limits}")
    return sizes
