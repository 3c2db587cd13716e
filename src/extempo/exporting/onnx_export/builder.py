"""Builder: makes ONNX nodes by the names of ONNX's operators, as the `onnx` aspects of ops ask for them.

`b.Mul(x, 2.0)` adds a node and gives its result, an `OnnxValue`. Inputs are values, numbers (constants of the dtype of
the other inputs), arrays, sizes of a program, lists (vectors of integers, sizes among them) and None for one left out.
Attributes that are None are left out. Constants and sizes stand in the outermost graph, where inner graphs see them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ...core.types import TensorType, bool_, dtype, float32, float64, int32, int64
from ...core.types import as_dtype as to_dtype
from ...errors import ExportError
from ..calls import named_size
from ..sizes import FUNCTIONS, Opaque, SizeExpr, computed

_TRUTHS = frozenset(
    ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Not", "Xor", "IsNaN", "IsInf"]
)
_INDICES = frozenset(["Shape", "Size", "ArgMax", "ArgMin", "NonZero"])
_LIKE_SECOND = frozenset(("Where",))
_AXES_SINCE_18 = frozenset(
    ["ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp"]
)


class NoForm(Exception):
    """Raised by an aspect: these inputs or attributes have no ONNX form, for this reason."""


class OnnxValue:
    """The result of an ONNX node: its name, dtype and, where known, its shape."""

    __slots__ = ("array", "dtype", "name", "shape")

    def __init__(
        self, name: str, dtype: dtype, shape: tuple[Any, ...] | None = None, array: np.ndarray[Any, Any] | None = None
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.array = array  # of a constant

    @property
    def ndim(self) -> int:
        """The number of dimensions, of a value whose shape is known."""
        assert self.shape is not None
        return len(self.shape)

    def __repr__(self) -> str:
        return f"OnnxValue({self.name}: {self.dtype}{'' if self.shape is None else list(self.shape)})"


class Block:
    """The nodes of one graph: the outermost one, a branch, or the body of a loop."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[OnnxValue] = []
        self.outputs: list[OnnxValue] = []


class Builder:
    """See the module's text. One builder makes one model."""

    def __init__(self, onnx: Any, opset: int, taken: Iterable[str] = ()) -> None:
        """onnx: the package; taken: names that no value may have."""
        self._onnx = onnx
        self.opset = opset
        self.main = Block()
        self.constants = Block()  # before everything else
        self.head = Block()  # sizes, behind the constants
        self.conditions: list[str] = []  # of values, which an ONNX model does not check
        self.initializers: list[Any] = []
        self._block = self.main
        self._names = set(taken)
        self._count = 0
        self._constants: dict[Any, OnnxValue] = {}
        self._sizes: dict[SizeExpr, OnnxValue] = {}
        self._shapes: dict[tuple[Any, ...], OnnxValue] = {}  # vectors of sizes
        self._decided: set[str] = set()  # names of sizes that values decide
        self._where_sizes: dict[str, tuple[str, int, int]] = {}  # of each named size its input, dimension, and excess

    # ---- names, inputs, constants

    def name(self, hint: str) -> str:
        """A name that no other value has."""
        while True:
            self._count += 1
            made = f"{hint}_{self._count}"
            if made not in self._names:
                self._names.add(made)
                return made

    def add_input(self, name: str, type_: TensorType) -> OnnxValue:
        """An input of the model; its named sizes are read from it."""
        value = OnnxValue(name, type_.dtype, type_.shape)
        self.main.inputs.append(value)
        for d, size in enumerate(type_.shape):
            if isinstance(size, SizeExpr):
                known, added = named_size(size)
                self._where_sizes.setdefault(known, (name, d, added))
        return value

    def name_size(self, name: str, rows: OnnxValue) -> None:
        """A size that values decide is the number of these rows."""
        self._where_sizes[name] = (rows.name, 0, 0)
        self._decided.add(name)

    def _home(self, sizes: Iterable[Any]) -> Block:
        """Where sizes are computed: before everything else, or, if values decide them, behind what is there already."""
        names = {name for size in sizes if isinstance(size, SizeExpr) for name in size.names()}
        return self.head if names.isdisjoint(self._decided) else self.main

    def initializer(self, name: str, array: np.ndarray[Any, Any]) -> OnnxValue:
        """A weight."""
        made = OnnxValue(name, to_dtype(str(array.dtype)), array.shape, array)
        self.initializers.append(
            self._onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        )
        return made

    def constant(self, value: Any, d: dtype) -> OnnxValue:
        """A number or array as a constant of that dtype."""
        array = np.asarray(value).astype(d.numpy) if not isinstance(value, float) else np.asarray(value, d.numpy)
        key = (d, array.shape, array.tobytes())
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.named_constant(self.name("const"), array)
        return found

    def named_constant(self, name: str, array: np.ndarray[Any, Any]) -> OnnxValue:
        """An array of the model's code: a node, so that nobody takes it for a weight, before all others."""
        held = self._onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        self.constants.nodes.append(self._onnx.helper.make_node("Constant", [], [name], f"{name}_node", value=held))
        return OnnxValue(name, to_dtype(str(array.dtype)), array.shape, array)

    # ---- sizes

    def size(self, size: Any) -> OnnxValue:
        """An integer, or a size of the program, as an int64 scalar."""
        if isinstance(size, OnnxValue):
            return size
        size = _plain(size)
        if not isinstance(size, SizeExpr):
            return self.constant(int(size), int64)
        vector = self._vector(size)
        with self._at(self._home([size])):
            return self.Squeeze(vector, [0])

    def ints(self, sizes: Sequence[Any]) -> OnnxValue:
        """Integers, sizes of the program and int64 scalars, as one vector."""
        sizes = [_plain(s) for s in sizes]
        if not any(isinstance(s, SizeExpr | OnnxValue) for s in sizes):
            return self.constant(np.array([int(s) for s in sizes], np.int64), int64)
        if any(isinstance(s, OnnxValue) for s in sizes):
            parts = [self.Reshape(s, [1]) if isinstance(s, OnnxValue) else self._vector(s) for s in sizes]
            return parts[0] if len(parts) == 1 else self.Concat(*parts, axis=0)
        found = self._shapes.get(tuple(sizes))
        if found is None:
            with self._at(self._home(sizes)):
                vectors = [self._vector(s) for s in sizes]
                found = vectors[0] if len(vectors) == 1 else self.Concat(*vectors, axis=0)
            self._shapes[tuple(sizes)] = found
        return found

    def _vector(self, size: Any) -> OnnxValue:
        """A size as a vector of one element; computed once, before everything else."""
        if not isinstance(size, SizeExpr):
            return self.constant(np.array([size]), int64)
        found = self._sizes.get(size)
        if found is None:
            with self._at(self._home([size])):
                found = self._sizes[size] = self._computed_size(size)
        return found

    def _computed_size(self, size: SizeExpr) -> OnnxValue:
        total: OnnxValue | None = None
        for factors, coefficient in size.terms:
            term: OnnxValue | None = None if coefficient == 1 and factors else self._number(coefficient)
            for factor in factors:
                value = self._factor(factor)
                term = value if term is None else self._arithmetic("Mul", term, value)
            assert term is not None
            total = term if total is None else self._arithmetic("Add", total, term)
        return total if total is not None else self._number(0)

    def _number(self, number: Any) -> OnnxValue:
        return self.constant(np.array([number]), float64 if isinstance(number, float) else int64)

    def _factor(self, factor: str | Opaque) -> OnnxValue:
        if isinstance(factor, str):
            name, d, added = self._where_sizes[factor]
            size = self.emit("Shape", OnnxValue(name, int64), start=d, end=d + 1)
            return self.Sub(size, self._number(added)) if added else size
        if factor.sign == "max0":
            return self.Max(self._vector(factor.parts[0]), self._number(0))
        if factor.sign in FUNCTIONS:
            return self._function(factor.sign, self._vector(factor.parts[0]))
        a, b = (self._vector(part) for part in factor.parts)
        if factor.sign == "/":
            return self.Div(self.cast(a, float64), self.cast(b, float64))
        if factor.sign in ("<<", ">>"):
            power = self.Pow(self._number(2), b)
            return self.Mul(a, power) if factor.sign == "<<" else self.Div(self.Sub(a, self.Mod(a, power)), power)
        if factor.sign in ("&", "|"):
            kind = "BitwiseAnd" if factor.sign == "&" else "BitwiseOr"
            self.require(18, kind)
            return self.emit(kind, a, b)
        if factor.sign in ("//", "%"):  # of a size that is 0, which ONNX leaves undefined, the result is 0
            is_zero = self.Equal(b, 0)
            divisor = self.Where(is_zero, 1, b)
            rest = self.Mod(a, divisor)
            result = rest if factor.sign == "%" else self.Div(self.Sub(a, rest), divisor)
            return self.Where(is_zero, 0, result)
        kinds = {"**": "Pow", "+": "Add", "-": "Sub", "*": "Mul"}
        if factor.sign not in kinds:
            raise ExportError(f"to_onnx: the size {factor} has no ONNX form; compute it without {factor.sign}")
        return self._arithmetic(kinds[factor.sign], a, b)

    def _function(self, name: str, a: OnnxValue) -> OnnxValue:
        """One of `FUNCTIONS` of a size."""
        x = self.cast(a, float64)
        if name in ("ceil", "floor", "round", "int"):
            rounded = x if name == "int" else self.emit(name.capitalize(), x)
            return self.cast(rounded, int64)  # which cuts off, as int() does
        if name == "log1p":
            return self.emit("Log", self.Add(x, self._number(1.0)))
        base = {"log2": math.log(2.0), "log10": math.log(10.0)}.get(name)
        if base is not None:
            return self.Div(self.emit("Log", x), self._number(base))
        return self.emit(name.capitalize(), x)

    def _arithmetic(self, kind: str, a: OnnxValue, b: OnnxValue) -> OnnxValue:
        if a.dtype is not b.dtype:
            a, b = self.cast(a, float64), self.cast(b, float64)  # as Python computes them
        return self.emit(kind, a, b)

    def product(self, sizes: Iterable[Any]) -> Any:
        """The product of sizes of the program, as a size."""
        total = SizeExpr.of(1)
        for size in sizes:
            total = computed("*", total, SizeExpr.of(size))
        return _plain(total)

    # ---- nodes

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        if not kind[0].isupper():
            raise AttributeError(kind)

        def emit(*inputs: Any, **attrs: Any) -> Any:
            return self.emit(kind, *inputs, **attrs)

        return emit

    def emit(
        self, kind: str, *inputs: Any, n_results: int = 1, result: dtype | Sequence[dtype] | None = None, **attrs: Any
    ) -> Any:
        """Add a node; its result, or a tuple of them if there are several."""
        like = self._like(kind, inputs)
        values = [None if x is None else self.value(x, like) for x in inputs]
        while values and values[-1] is None and (kind != "Loop" or len(values) > 2):
            values.pop()
        names = ["" if v is None else v.name for v in values]
        results = [self.name(kind.lower()) for _ in range(n_results)]
        attrs = {k: v for k, v in attrs.items() if v is not None and (k != "perm" or v)}  # no dimensions: no order
        self._block.nodes.append(self._onnx.helper.make_node(kind, names, results, self.name(kind), **attrs))
        dtypes = self._dtypes(kind, like, result, n_results, attrs)
        made = tuple(OnnxValue(n, d) for n, d in zip(results, dtypes, strict=True))
        return made if n_results > 1 else made[0]

    def _like(self, kind: str, inputs: Sequence[Any]) -> dtype:
        """The dtype that numbers among the inputs get."""
        first = 1 if kind in _LIKE_SECOND else 0
        for x in inputs[first:]:
            if isinstance(x, OnnxValue):
                return x.dtype
        for x in inputs[first:]:
            if isinstance(x, float):
                return float32
        return int64

    def _dtypes(self, kind: str, like: dtype, result: Any, n_results: int, attrs: dict[str, Any]) -> Sequence[dtype]:
        if result is not None:
            return result if isinstance(result, tuple | list) else (result,) * n_results
        if kind in _TRUTHS:
            return (bool_,) * n_results
        if kind in _INDICES:
            return (int64,) * n_results
        if kind == "TopK":
            return (like, int64)
        return (like,) * n_results

    def value(self, x: Any, like: dtype) -> OnnxValue:
        """An input of a node as a value."""
        if isinstance(x, OnnxValue):
            return x
        if isinstance(x, list | tuple):
            return self.ints(x)
        if isinstance(x, SizeExpr) and _plain(x) is x:
            found = self.size(x)
            return found if like is int64 else self.cast(found, like)
        if isinstance(x, np.ndarray):
            return self.constant(x, to_dtype(str(x.dtype)))
        return self.constant(_plain(x), like)

    # ---- what many aspects need

    def refuse(self, why: str) -> NoReturn:
        """There is no ONNX form for these inputs or attributes."""
        raise NoForm(why)

    def require(self, opset: int, kind: str) -> None:
        """An operator that came with this opset."""
        if self.opset < opset:
            self.refuse(f"{kind} is part of ONNX from opset {opset} on; say opset_version={opset} or more")

    def cast(self, x: OnnxValue, to: dtype) -> OnnxValue:
        """Converted, if it has another dtype."""
        if x.dtype is to:
            return x
        made: OnnxValue = self.emit("Cast", x, to=self.element_type(to), result=to)
        made.shape = x.shape
        return made

    def element_type(self, d: dtype) -> int:
        """ONNX's number for a dtype."""
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(d.numpy)))

    def reduce(self, kind: str, x: OnnxValue, dims: Sequence[int], keepdim: bool) -> OnnxValue:
        """A Reduce operator, whose dimensions are an attribute before opset 18; over none, the value itself."""
        if not dims:
            return x
        if kind in _AXES_SINCE_18 and self.opset < 18:
            made: OnnxValue = self.emit(kind, x, axes=list(dims), keepdims=int(keepdim))
        else:
            made = self.emit(kind, x, list(dims), keepdims=int(keepdim))
        return made

    def matmul(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        """A product of matrices. Batches of an open size are reshaped first and after it.

        onnxruntime fuses a Transpose of batch dimensions with a MatMul beside it, and that one divides by a size of 0.
        """
        made: OnnxValue
        assert x.shape is not None
        assert y.shape is not None
        is_open = any(isinstance(s, SizeExpr) for s in (*x.shape, *y.shape))
        if not is_open or x.ndim < 3 or x.ndim != y.ndim or x.shape[:-2] != y.shape[:-2]:
            made = self.MatMul(x, y)
            return made
        lead = self.product(x.shape[:-2])
        made = self.MatMul(self.reshape(x, (1, lead, *x.shape[-2:])), self.reshape(y, (1, lead, *y.shape[-2:])))
        return self.reshape(made, (*x.shape[:-1], y.shape[-1]))

    def ordered(self, x: OnnxValue) -> OnnxValue:
        """Fit for operators that compare: bools and narrow integers as int32."""
        return self.cast(x, int32) if x.dtype.category < 2 and x.dtype.itemsize < 4 else x

    def place(self, kind: str, x: OnnxValue, dim: Sequence[int], keepdim: bool) -> OnnxValue:
        """ArgMax or ArgMin along one dimension, or of a single number."""
        if not dim:
            return self.full((), 0, int64)
        made: OnnxValue = self.emit(kind, self.ordered(x), axis=dim[0], keepdims=int(keepdim))
        return made

    def taken(self, x: OnnxValue, places: OnnxValue, dim: Sequence[int], keepdim: bool) -> tuple[OnnxValue, OnnxValue]:
        """The elements at places that were found along one dimension with keepdim, and those places."""
        if not dim:
            return x, places
        values = self.emit("GatherElements", x, places, axis=dim[0])
        return (values, places) if keepdim else (self.Squeeze(values, dim), self.Squeeze(places, dim))

    def joined(self, indices: Sequence[OnnxValue]) -> OnnxValue:
        """Index tensors, broadcast, beside each other in a new last dimension, as GatherND reads them."""
        indices = [self.cast(i, int64) for i in indices]
        zero = self.Mul(indices[0], 0)
        for i in indices[1:]:
            zero = self.Add(zero, self.Mul(i, 0))
        made: OnnxValue = self.Concat(*(self.Unsqueeze(self.Add(i, zero), [-1]) for i in indices), axis=-1)
        return made

    def plus(self, a: Any, b: Any) -> Any:
        """The sum of sizes of the program, as a size."""
        return _plain(computed("+", SizeExpr.of(a), SizeExpr.of(b)))

    def times(self, a: Any, b: Any) -> Any:
        """The product of two sizes of the program, as a size."""
        return _plain(computed("*", SizeExpr.of(a), SizeExpr.of(b)))

    def at_least(self, end: Any, lowest: int, step: int) -> Any:
        """The end of a slice: backwards beyond the first element, a number that no dimension has."""
        return lowest if step < 0 and isinstance(end, int) and end < 0 else end

    def best_places(self, x: OnnxValue, k: Any, dim: int, largest: bool) -> OnnxValue:
        """The indices of the k largest or smallest elements along a dimension, best first; NaN is the largest."""
        if x.dtype.is_floating_point:
            x = _typed_like(self.Where(self.IsNaN(x), self.constant(math.inf, x.dtype), x), x)
            x = self.cast(x, float32) if x.dtype.itemsize == 2 else x
        if x.ndim == 0:
            return self.full((), 0, int64)
        _, places = self.emit("TopK", self.ordered(x), [k], axis=dim, largest=int(largest), sorted=1, n_results=2)
        return places

    def recurrent(self, kind: str, *inputs: Any) -> tuple[OnnxValue, ...]:
        """A recurrent layer by ONNX's operator of that name; see `recurrent.sequence`."""
        from .recurrent import sequence

        return sequence(self, kind, *inputs)

    def plain(self, x: OnnxValue) -> OnnxValue:
        """In a dtype that operators which only move elements take: others than the usual ones as int64."""
        return x if x.dtype.is_floating_point or x.dtype is int64 else self.cast(x, int64)

    def scattered(self, x: OnnxValue, index: OnnxValue, src: Any, dim: int, reduction: str | None) -> OnnxValue:
        """x with src written, or combined, where the index points along a dimension."""
        index = self.cast(index, int64)
        if x.shape == ():
            return self.reshape(
                self.scattered(_vector(self, x), _vector(self, index), _vector(self, src), 0, reduction), ()
            )
        src = self.value(src, x.dtype)
        if src.shape == ():
            src = self.Expand(src, self.Shape(index))
        narrow = x if reduction is None else self.ordered(x)
        source = self.cast(src, narrow.dtype)
        if source.shape != index.shape:  # of a larger source the first elements are read
            source = self.Slice(source, [0] * x.ndim, self.Shape(index))
        return _typed_like(self.emit("ScatterElements", narrow, index, source, axis=dim, reduction=reduction), x)

    def window_pads(
        self, x: OnnxValue, kernel: Sequence[Any], stride: Any, padding: Any, dilation: Any, counts: Any, fill: Any
    ) -> tuple[OnnxValue, list[int]]:
        """The padding at both ends so that there are `counts` windows, as an attribute; what is none is done first."""
        assert x.shape is not None
        highs = []
        for size, k, s, low, d, n in zip(x.shape[2:], kernel, stride, padding, dilation, counts, strict=True):
            reach = (k - 1) * d + 1
            high = self.plus(self.plus(self.times(self.plus(n, -1), s), reach - low), self.times(size, -1))
            if not isinstance(high, int):
                quotient = computed("//", SizeExpr.of(self.plus(size, 2 * low - reach)), SizeExpr.of(s))
                if _plain(computed("+", quotient, SizeExpr.of(1))) != _plain(n):
                    self.refuse("windows that reach beyond the padding (ceil_mode) need a fixed size")
                high = low
            highs.append(high)
        if fill is None or all(p >= 0 for p in (*padding, *highs)):
            return x, [*padding, *(max(0, h) for h in highs)]
        pads = [0, 0, *padding, 0, 0, *highs]
        return self.emit("Pad", x, pads, self.constant(fill, x.dtype)), [0] * (2 * len(highs))

    def full(self, shape: Sequence[Any], value: Any, d: dtype) -> OnnxValue:
        """A tensor of one value."""
        made: OnnxValue = self.Expand(self.constant(value, d), list(shape))
        made.shape = tuple(shape)
        return made

    def reshape(self, x: OnnxValue, shape: Sequence[Any]) -> OnnxValue:
        """The same elements in another shape, sizes of 0 included."""
        made: OnnxValue = self.emit("Reshape", x, list(shape), allowzero=1)
        made.shape = tuple(shape)
        return made

    def range(self, n: Any) -> OnnxValue:
        """0, 1, ... n - 1 as int64."""
        made: OnnxValue = self.Range(self.size(0), self.size(n), self.size(1))
        return made

    # ---- inner graphs

    @contextmanager
    def _at(self, block: Block) -> Iterator[None]:
        before, self._block = self._block, block
        try:
            yield
        finally:
            self._block = before

    @contextmanager
    def block(self) -> Iterator[Block]:
        """Nodes that are added inside belong to an inner graph."""
        made = Block()
        with self._at(made):
            yield made

    def graph(self, block: Block, name: str) -> Any:
        """A block as an ONNX graph."""
        # A graph gives results of its own nodes only, each once.
        outputs: list[OnnxValue] = []
        own = {n for node in block.nodes for n in node.output}
        for value in block.outputs:
            if value.name not in own or any(value.name == o.name for o in outputs):
                with self._at(block):
                    value = _typed_like(self.Identity(value), value)
            outputs.append(value)
        return self._onnx.helper.make_graph(
            block.nodes, name, [self._info(v) for v in block.inputs], [self._info(v) for v in outputs]
        )

    def _info(self, value: OnnxValue) -> Any:
        shape = None if value.shape is None else [s if isinstance(s, int) else str(s) for s in map(_plain, value.shape)]
        return self._onnx.helper.make_tensor_value_info(value.name, self.element_type(value.dtype), shape)


def _vector(b: Builder, x: Any) -> Any:
    return b.reshape(x, (1,)) if isinstance(x, OnnxValue) else x


def _typed_like(made: OnnxValue, value: OnnxValue) -> OnnxValue:
    made.shape = value.shape
    return made


def _plain(size: Any) -> Any:
    """A number in place of an expression that is one."""
    if isinstance(size, SizeExpr) and size.constant is not None:
        return size.constant
    return size
