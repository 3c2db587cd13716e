"""Op: one operation and all that is known of it, in one class.

An op is a class, never instantiated, found by name in `REGISTRY`. Its aspects:

    infer    shape rule: input types and attributes -> the type of the result (a tuple of types for several results)
    numpy    the NumPy kernel: arrays in, array (or tuple of arrays) out; the oracle of every other kernel
    vjp      gradient: (g, y, *inputs, **attrs) -> one cotangent, None, or a thunk returning one, per input
    saves    what `vjp` READS: for each input's gradient the values it needs, e.g. ("b", "a") for matmul(a, b);
             "y" means the result, "y.1" only the second of several
    lower    native code for it: a function of an Emitter for elementwise ops, `Routine("name")` for others
    batch    how it runs with one more leading dimension: a function, "align" (of elements, which broadcast), or
             "shift_dim" and "shift_dims" (along the dimension or dimensions of the attribute `dim`)
    ragged   how it runs on rows of different length (below)
    onnx     its ONNX form (below)
    samples  inputs that every test of the op runs over

Every aspect is there or is a stated `Refuse("why")`: a missing one is an error at import. Families (`Elementwise`,
`Reduction`, `View`, ...) supply what their members share, so that an op's own rules stay a line each.

Conventions. Inputs are tensors, numbers (weak: they take the dtype of their fellow inputs, and are values, never part
of a key) or None. Attributes are keyword arguments and only what changes shape or meaning (dim, keepdim, mode). `vjp`
gets a saved input as a Tensor and one it does not read as its TensorType, so reading an undeclared value fails loudly.
The engine un-broadcasts, converts dtypes and adds gradients up; no `vjp` does.

Ragged tensors have all rows end to end in one tensor of values, and `Rows`, which knows where each begins. An op along
dimensions states `ragged` as a function, (rows, *inputs, **attrs without dim and keepdim) -> the result for each row,
or for each element of each row, where inputs are values with their rows along dimension 0. Other ops name a rule: a
function of `ragged_tensors/rules.py` ("elementwise"), or of another module there ("products.matmul").

`onnx` is a function, (b, *inputs, **attrs) -> values, of a builder that has ONNX's operators as methods, such as
`b.Softmax(x, axis=dim)`; or `Decomposed(f)`, where f says the op in other ops; or the name of a rule of
`exporting/onnx_export/rules.py`: "elementwise" (what `lower` says of one element), "kernel" (the NumPy kernel, run on
symbols), "control" (the graphs that a node holds).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..errors import DtypeError, ShapeError
from .types import InputType, TensorType, broadcast_shapes, dtype, float16, float32, get_default_dtype, result_dtype
from .types import bool_ as bool_dtype

REGISTRY: dict[str, type[Op]] = {}

ASPECTS = ("infer", "numpy", "vjp", "saves", "lower", "batch", "ragged", "onnx", "samples")

# A text, because NumPy loads its random module when it is named, and only tests of ops draw from it.
Rng: TypeAlias = "np.random.Generator"


class Refuse:
    """An aspect that an op does not have, with the reason. Reasons that begin with "not yet" are work to come."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __repr__(self) -> str:
        return f"Refuse({self.why!r})"


IN_GRADIENTS_ONLY = Refuse("it runs in gradients only, and those of a ragged tensor are computed on its values")


class Decomposed:
    """An `onnx` that says the op in other ops: a function of its inputs and attributes.

    A first argument that is named `flow` gets the functions of branches and loops: cond, while_loop, scan and map.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.has_loops = function.__code__.co_varnames[:1] == ("flow",)

    def __repr__(self) -> str:
        return f"Decomposed({self.function.__qualname__})"


GRADIENTS_ONLY = Refuse("it runs in gradients only, and an exported program has none")


class Routine:
    """A `lower` that names hand-written native code, for an op that is more than a function of single elements."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Routine({self.name!r})"


class Sample:
    """One call of an op for its tests: inputs (arrays, numbers, None) and attributes."""

    def __init__(self, *inputs: Any, **attrs: Any) -> None:
        self.inputs = inputs
        self.attrs = attrs

    def __repr__(self) -> str:
        parts = [f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a) for a in self.inputs]
        return f"Sample({', '.join(parts + [f'{k}={v!r}' for k, v in self.attrs.items()])})"


class Signature:
    """What `infer` said of one combination of input types, with what running it needs. Kept and shared."""

    __slots__ = ("compute", "embeds", "floating", "kernel", "numpy_dtype", "plans", "reason", "type", "view")

    def __init__(self, type: Any, compute: np.dtype[Any] | None) -> None:
        self.type: Any = type
        self.kernel: Any = None  # the native kernel, where there is one; otherwise the op's NumPy kernel runs
        self.view: Any = None  # how native code makes the view, for an op that is one
        self.embeds: Any = None  # the same, where it is a part into which backward adds the gradient
        # By the inputs that need a gradient, as bits: what is kept for it, and what computes it (None: not known yet).
        self.plans: dict[int, tuple[tuple[int, ...], Any]] = {}
        self.reason: str | None = None  # why gradients end at a result that is not floating
        self.floating = isinstance(type, TensorType) and type.dtype.is_floating_point
        self.compute = compute  # convert inputs to this before the kernel; None when they already fit
        self.numpy_dtype: Any = type.dtype.numpy if isinstance(type, TensorType) else None


class Op:
    """The base of every operation; see the module's text for the aspects."""

    name: ClassVar[str]
    public_name: ClassVar[str]  # what messages call it: the function that makes it, where that has another name
    family: ClassVar[str] = "other"
    aliases_input: ClassVar[bool] = False  # the result is a view of input 0
    quiet: ClassVar[bool] = False  # the NumPy kernel can never raise a floating-point warning
    simple: ClassVar[bool] = False  # floating tensors of one dtype give that dtype, and the gradient can be derived
    only_wide: ClassVar[bool] = False  # half precision is not taken
    keeps_order: ClassVar[bool] = False  # results have the layout of the inputs (strides.py); others are row-major
    own_order: ClassVar[bool] = False  # the op itself says how its results are laid out
    embeds: ClassVar[bool] = False  # a view of a part: the engine adds its gradient into that part of the base's
    materialize: ClassVar[bool] = True  # outputs without a cotangent get zeros; False: vjp sees None
    freeing: ClassVar[Any] = None  # called with a node that a backward is about to pass for the last time
    freed: ClassVar[Any] = None  # called with one that it has passed
    stacked_vjp: ClassVar[Any] = None  # of (array, node): its input's gradient from those of all its results, stacked
    traceable: ClassVar[bool] = True  # vjp may be run on symbols, once for many backwards; False: it is the user's code
    hands_back: ClassVar[bool] = False  # vjp gets saved tensors with their history, also when it is not differentiated
    gives_away: ClassVar[bool] = False  # vjp is not traceable, but nobody else sees the memory of its gradients

    infer: ClassVar[Any]
    numpy: ClassVar[Any]
    vjp: ClassVar[Any]
    saves: ClassVar[Any]
    lower: ClassVar[Any] = Refuse("not yet: native kernels")
    batch: ClassVar[Any]
    ragged: ClassVar[Any]
    onnx: ClassVar[Any]
    samples: ClassVar[Any]

    _save_plans: ClassVar[dict[tuple[int, int], tuple[int, ...]]]

    def __init_subclass__(cls, abstract: bool = False) -> None:
        if abstract:
            return
        if "name" not in cls.__dict__:
            cls.name = _snake_case(cls.__name__)
        if "public_name" not in cls.__dict__:
            cls.public_name = cls.name.replace("special_", "special.", 1)
        missing = [aspect for aspect in ASPECTS if not hasattr(cls, aspect)]
        if missing:
            raise TypeError(f"op {cls.name}: missing {', '.join(missing)}; define each or state Refuse('why')")
        if not isinstance(cls.vjp, Refuse) and cls.saves is not None:
            cls._check_saves()
        cls._save_plans = {}
        if cls.name in REGISTRY:
            raise TypeError(f"op {cls.name} is defined twice: {REGISTRY[cls.name].__qualname__} and {cls.__qualname__}")
        REGISTRY[cls.name] = cls

    @classmethod
    def _check_saves(cls) -> None:
        names = set(cls._vjp_names())
        for entry in cls.saves:
            unknown = {name.partition(".")[0] for name in entry.split()} - names
            if unknown:
                raise TypeError(f"op {cls.name}: saves names {sorted(unknown)}, vjp has {sorted(names)}")

    @classmethod
    def _vjp_names(cls) -> list[str]:
        """The names of (y, *inputs) in `vjp`, which `saves` refers to."""
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        return [p.name for p in inspect.signature(cls.vjp).parameters.values() if p.kind in kinds][1:]

    @classmethod
    def save_plan(cls, masks: tuple[int, int], types: tuple[InputType, ...]) -> tuple[int, ...]:
        """Positions in (y, *inputs) to keep. Masks: the inputs that need a gradient, the ones that are tensors."""
        plan = () if isinstance(cls.vjp, Refuse) else cls._derive_save_plan(masks[0], types)
        cls._save_plans[masks] = plan
        return plan

    @classmethod
    def _derive_save_plan(cls, needs: int, types: tuple[InputType, ...]) -> tuple[int, ...]:
        names = cls._vjp_names()
        keep: set[int] = set()
        for i in range(len(types)):
            if not needs >> i & 1:
                continue
            # An op with any number of inputs (cat) states one entry for all of them.
            for name in cls.saves[min(i, len(cls.saves) - 1)].split():
                whole, _, result = name.partition(".")
                keep.add(-1 - int(result) if result else names.index(whole))
        return tuple(sorted(p for p in keep if p <= 0 or isinstance(types[p - 1], TensorType)))

    @classmethod
    def signature(cls, types: tuple[InputType, ...], attrs: dict[str, Any]) -> Signature:
        """The shape rule, and the conversions that the kernel needs."""
        return Signature(cls.infer(*types, **plain_attributes(cls.public_name, attrs)), None)


def plain_attributes(op: str, attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes whose numbers are Python's, since sizes of memory and places in it are computed with them.

    NumPy's numbers become such: their sums wrap around. A tensor is refused: `size += n` would write to it, and so
    change every number that was computed before and is that same tensor.
    """
    return {name: _plain(op, name, value) for name, value in attrs.items()} if attrs else attrs


def _plain(op: str, name: str, value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if type(value) is tuple:
        return tuple([_plain(op, name, part) for part in value])
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "__array__") and not isinstance(value, int | float):  # the numbers of a static function are both
        raise DtypeError(f"{op}: {name} must be a number, got a tensor; take its number with int(...) or .item()")
    return value


_PLAIN = frozenset((int, float, bool, str, type(None), dtype))


def _snake_case(name: str) -> str:
    out = ""
    for i, letter in enumerate(name):
        if letter.isupper() and i and not name[i - 1].isupper():
            out += "_"
        out += letter.lower()
    return out


class Elementwise(Op, abstract=True):
    """result[i] = f(a[i], b[i], ...) after broadcasting and type promotion.

    `saves` and a fast backward are derived by tracing `vjp` once, so `vjp` must itself be written in elementwise ops.
    """

    family = "elementwise"
    keeps_order = True
    # The dtypes it takes: b bool, i integers, f floating. Integers become the default floating dtype with to_float.
    domain: ClassVar[str] = "bif"
    to_float: ClassVar[bool] = False
    returns_bool: ClassVar[bool] = False
    takes_none: ClassVar[bool] = False  # an input may be left out
    wide_numbers: ClassVar[bool] = False  # float16 with a number (or another dtype) computes in float32: loss scaling
    saves: ClassVar[Any] = None  # derived
    batch: ClassVar[Any] = "align"  # put batch dimensions in front and let broadcasting do the rest
    ragged: ClassVar[Any] = "elementwise"  # the values are computed, and the rows stay
    onnx: ClassVar[Any] = "elementwise"  # what `lower` says; without it "kernel", what `numpy` says

    def __init_subclass__(cls, abstract: bool = False) -> None:
        super().__init_subclass__(abstract)
        if not abstract and cls.onnx == "elementwise" and not callable(cls.lower):
            cls.onnx = "kernel"
        plain_rules = "_rule" not in cls.__dict__ and "signature" not in cls.__dict__ and cls.saves is None
        cls.simple = plain_rules and not cls.returns_bool and "f" in cls.domain

    @classmethod
    def infer(cls, *types: InputType) -> TensorType:
        return cls._rule(types)[0]

    @classmethod
    def _rule(cls, types: tuple[InputType, ...]) -> tuple[TensorType, Any]:
        if type(None) in types and not cls.takes_none:
            raise DtypeError(f"{cls.name}: expected tensors or numbers, got None")
        try:
            compute = result_dtype(types)
            shape = broadcast_shapes(*[t.shape for t in types if isinstance(t, TensorType)])
        except (DtypeError, ShapeError) as error:
            raise type(error)(f"{cls.name}: {error}") from None
        if cls.to_float and not compute.is_floating_point:
            compute = get_default_dtype()
        if "bif"[compute.category] not in cls.domain:
            wanted = " or ".join({"b": "bool", "i": "integer", "f": "floating"}[k] for k in cls.domain)
            raise DtypeError(
                f"{cls.name}: expected {wanted} tensors, got {compute}; "
                f"convert first, e.g. x.{_cast_hint(cls.domain)}()"
            )
        return TensorType(shape, bool_dtype if cls.returns_bool else compute), compute

    @classmethod
    def signature(cls, types: tuple[InputType, ...], attrs: dict[str, Any]) -> Signature:
        out, compute = cls._rule(types)
        if compute.is_floating_point and compute.itemsize == 2 and cls._wide(compute, types):
            return Signature(out, float32.numpy)
        fits = all(t.dtype is compute if isinstance(t, TensorType) else compute.is_floating_point for t in types)
        return Signature(out, None if fits else compute.numpy)

    @classmethod
    def _wide(cls, compute: dtype, types: tuple[InputType, ...]) -> bool:
        """Whether half precision is computed in float32: an op rounds once, at its end, however many steps it has."""
        if not isinstance(cls.numpy, np.ufunc):
            return True
        halves_only = all(isinstance(t, TensorType) and t.dtype is compute for t in types)
        return cls.wide_numbers and compute is float16 and not halves_only

    @classmethod
    def _derive_save_plan(cls, needs: int, types: tuple[InputType, ...]) -> tuple[int, ...]:
        if cls.saves is not None:  # stated, because attributes keep it from being derived
            return super()._derive_save_plan(needs, types)
        from ..autograd.derive import derived_vjp

        return derived_vjp(cls, needs, types).reads


def _cast_hint(domain: str) -> str:
    return {"f": "float", "i": "long", "b": "bool"}[domain[-1]]


class Reduction(Op, abstract=True):
    """Some dimensions become one number each; attributes `dim` (a tuple, sorted) and `keepdim`."""

    family = "reduction"
    batch: ClassVar[Any] = "shift_dims"


class View(Op, abstract=True):
    """The same storage seen with another shape or stride."""

    family = "view"
    aliases_input = True
    quiet = True
    saves: ClassVar[Any] = ("",)


def samples_unary(rng: Rng, low: float = -2.0, high: float = 2.0) -> Iterator[Sample]:
    """The usual inputs of a function of one variable: plain, 0-dim, empty."""
    yield Sample(rng.uniform(low, high, size=(3, 4)))
    yield Sample(rng.uniform(low, high, size=()))
    yield Sample(np.empty((0, 3)))


def samples_binary(rng: Rng, low: float = -2.0, high: float = 2.0) -> Iterator[Sample]:
    """The usual inputs of a function of two: same shapes, broadcasting, a number, 0-dim, empty."""

    def draw(*shape: int) -> np.ndarray[Any, Any]:
        return rng.uniform(low, high, size=shape)

    yield Sample(draw(3, 4), draw(3, 4))
    yield Sample(draw(3, 1), draw(2, 1, 4))
    yield Sample(draw(3), float(draw()))
    yield Sample(draw(), draw(2, 2))
    yield Sample(np.empty((0, 3)), draw(3))
