"""Routines of matrix products: matmul, linear and the gradients of linear's parameters, float32 and float64.

Every case (vectors, stacks of matrices that broadcast, a transposed view, a bias) becomes the same native call: a loop
over the stack around one product of an (m, k) by a (k, n) matrix. What differs is where each stride comes from, which
is settled here, in numbers: the call's meta holds, for each stride, the place in meta where it stands.

A product with one column is computed as one with one row, of the transposed matrices; one with one row and one column
is a dot product of contiguous vectors. Leading dimensions of `a` become rows where `b` is one matrix. Results
never depend on the number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

from ....core.types import TensorType, broadcast_shapes, count
from ..ir.builder import IRFunction, IRModule, Pointer, Value, i64, ptr, void
from ..ir.machine import machine
from ..ir.parallel import run_shared
from .gemm import Gemm, GemmPlan, gemm_of, plan
from .gemm_plan import CHUNK_PRODUCTS, MAX_CHUNKS
from .gemm_record import FIELDS, FUNCTIONS, OPERANDS, Record
from .gemm_tiles import Tiling, first_lanes
from .routine import FLOATS, Attrs, Bound, Inputs, build, routine

SUM_ROWS = 256
PACKED = "packed"  # attribute of a linear or matmul in plans: its second input comes packed
# A call's meta: the plan, the functions, these numbers, (size, stride of a, stride of b) for each dimension of the
# stack, strides that are known beforehand. What ends in _at is a place in meta.
_HEAD = (
    "a_buffer", "b_buffer", "c_buffer", "bias_buffer", "scratch_buffer", "spread_bias",
    "a_row_at", "a_step_at", "b_step_at", "b_column_at",
    "n_stacked", "n_products", "n_chunks", "chunk_products", "scratch", "n_summed_rows", "n_sums", "epilogue_at",
)  # fmt: skip
_HEAD_AT = len(GemmPlan._fields) + len(FUNCTIONS)
_STACK_AT = _HEAD_AT + len(_HEAD)
# Where a call's meta says where in it an epilogue stands: its address, the first of its buffers, its own meta; 0: none.
EPILOGUE_AT = _HEAD_AT + _HEAD.index("epilogue_at")


# ---- native code


class _ProductCall:
    """What one native call was given."""

    def __init__(self, b: IRFunction, buffers: Value, meta: Value) -> None:
        self.b = b
        self.buffers, self.meta = Pointer(buffers, ptr), Pointer(meta, i64)

    def __getitem__(self, name: str) -> Value:
        return self.meta[_HEAD_AT + _HEAD.index(name)]

    def buffer(self, name: str) -> Value:
        """The address of a buffer; null where its number is negative."""
        index = self[name]
        none = self.b.const(ptr, 0)
        return self.b.select(index < 0, none, self.buffers[self.b.select(index < 0, self.b.const(i64, 0), index)])


def _write_share(module: IRModule, name: str, gemm: Gemm, threads: bool) -> None:
    """A share of the products of a stack: context is {buffers, meta, where an epilogue says that it refuses}."""
    product, size = gemm.product(module, threads), gemm.t.size
    with module.function(name, void, internal=True, context=ptr, chunk=i64) as b:
        context = Pointer(b.arg("context"), ptr)
        call = _ProductCall(b, context[0], context[1])
        r = _begin_record(call, b.arg("chunk"), size)
        _add_epilogue(call, r, context[2])
        a, columns, c = (call.buffer(n) for n in ("a_buffer", "b_buffer", "c_buffer"))
        first = b.arg("chunk") * call["chunk_products"]
        end = first + call["chunk_products"]
        n_products = call["n_products"]
        with b.loop(first, b.smaller(end, n_products)) as index:
            a_offset, b_offset = _offsets(call, index)
            r["a"] = b.byte_offset(a, a_offset * size)
            r["b"] = b.byte_offset(columns, b_offset * size)
            r["first_row"] = index * r["m"]
            r["c"] = b.byte_offset(c, r["first_row"] * r["c_row"])
            b.call(product, r.address)


def _begin_record(call: _ProductCall, chunk: Value, size: int) -> Record:
    """A record with all that is the same for every product of the stack."""
    b = call.b
    r = Record(b, b.array(i64, len(FIELDS)).address)
    fields = Pointer(r.address, i64) + len(OPERANDS)
    with b.loop(0, _HEAD_AT) as i:
        fields[i] = call.meta[i]
    for name in ("a_row", "a_step", "b_step", "b_column"):
        r[name] = call.meta[call[name + "_at"]] * size
    r["c_row"] = r["n"] * size
    r["bias"] = b.select(call["spread_bias"] == 0, call.buffer("bias_buffer"), b.const(ptr, 0))
    r["scratch"] = b.byte_offset(call.buffer("scratch_buffer"), chunk * call["scratch"])
    return r


def _add_epilogue(call: _ProductCall, r: Record, refused: Value) -> None:
    """What is called for parts of the result; its context is {its buffers, its meta, refused}."""
    b, at = call.b, call["epilogue_at"]
    r["epilogue"] = b.const(ptr, 0)
    with b.if_(at > 0):
        entry, context = call.meta + at, b.array(ptr, 3)
        context[0], context[1], context[2] = call.buffers.at(entry[1]), entry.at(2), refused
        r["epilogue"], r["epilogue_context"] = Pointer(entry.address, ptr)[0], context.address


def _offsets(call: _ProductCall, index: Value) -> tuple[Value, Value]:
    """Where the operands of a product of the stack begin, in elements."""
    b = call.b
    rest, a, columns = b.var(i64, index), b.var(i64, 0), b.var(i64, 0)
    with b.loop(0, call["n_stacked"]) as i:
        entry = call.meta + (i * 3 + _STACK_AT)
        place = rest.value % entry[0]
        rest.set(rest.value // entry[0])
        a.set(a.value + place * call.meta[entry[1]])
        columns.set(columns.value + place * call.meta[entry[2]])
    return a.value, columns.value


def _write_column_sums(module: IRModule, name: str, t: Tiling) -> None:
    """The sums of the columns of a contiguous matrix: of 8 rows pairwise, of SUM_ROWS rows in order, of all in order.

    Three levels keep chains of roundings short.
    """
    args = {"x": ptr, "n_rows": i64, "n_columns": i64, "out": ptr}
    with module.function(name, void, internal=True, **args) as b:
        n_rows, row_bytes = b.arg("n_rows"), b.arg("n_columns") * t.size
        n_eights = n_rows - n_rows % 8
        with b.loop(0, b.arg("n_columns"), t.lanes) as column:
            mask, zeros = first_lanes(b, b.arg("n_columns") - column, t.lanes), b.const(t.vector, 0.0)
            start = b.byte_offset(b.arg("x"), column * t.size)

            def read(row: Value) -> Value:
                return b.masked_load(b.byte_offset(start, row * row_bytes), mask, zeros)

            total = b.var(t.vector, 0.0)
            with b.loop(0, n_eights, SUM_ROWS) as block:
                part = b.var(t.vector, 0.0)
                with b.loop(block, b.smaller(block + SUM_ROWS, n_eights), 8) as row:
                    rows = [read(row + i) for i in range(8)]
                    while len(rows) > 1:
                        rows = [x + y for x, y in zip(rows[::2], rows[1::2], strict=True)]
                    part.set(part.value + rows[0])
                total.set(total.value + part.value)
            with b.loop(n_eights, n_rows) as row:
                total.set(total.value + read(row))
            b.masked_store(total.value, b.byte_offset(b.arg("out"), column * t.size), mask)


def _write_products(module: IRModule, name: str, gemm: Gemm, threads: bool) -> None:
    share, sums, t = name + "_share", name + "_sums", gemm.t
    _write_share(module, share, gemm, threads)
    _write_column_sums(module, sums, t)
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        call = _ProductCall(b, b.arg("buffers"), b.arg("meta"))
        context, refused = b.array(ptr, 3), b.array(i64, 1)
        context[0], context[1], context[2] = b.arg("buffers"), b.arg("meta"), refused.address
        refused[0] = b.const(i64, 0)
        with b.if_(call["n_chunks"] == 1):
            b.call(module.defined[share], context.address, 0)
        if threads:
            with b.if_(call["n_chunks"] > 1):
                run_shared(b, share, context.address, call["n_chunks"])
        with b.if_(call["spread_bias"] != 0):
            c = Pointer(call.buffer("c_buffer"), t.element)
            bias = b.load(t.element, call.buffer("bias_buffer"))
            with b.loop(0, call["spread_bias"]) as i:
                c[i] = c[i] + bias
        with b.if_(call["n_sums"] > 0):
            x, out = call.buffers[0], call.buffers[call["c_buffer"] + 1]
            b.call(module.defined[sums], x, call["n_summed_rows"], call["n_sums"], out)
        b.ret(refused[0])


# ---- binding


class Product(NamedTuple):
    """The first result as rows and columns, where something can be done to them as they are made (`EPILOGUE_AT`)."""

    n_rows: int
    n_columns: int


class _ProductOperand(NamedTuple):
    """A stack of matrices as a product reads it: the input it is, and the input's dimensions that play each part.

    A dimension is its number, or None where there is none: its stride is then 0.
    """

    input: int
    row: int | None
    column: int | None
    stack: tuple[int | None, ...] = ()


class _Strides:
    """Where strides stand in meta: those of inputs that must be contiguous are known, the others come with the call."""

    def __init__(self, types: Inputs, reads: str, n_before: int) -> None:
        self.known = [0]  # the stride of a dimension that is not there
        self._places: dict[tuple[int, int], int] = {}
        for i, (t, kind) in enumerate(zip(types, reads, strict=True)):
            if isinstance(t, TensorType) and kind == "c":
                for d in range(t.ndim):
                    self._places[i, d] = n_before + len(self.known)
                    self.known.append(count(t.shape[d + 1 :]))
        n_given = n_before + len(self.known)
        for i, (t, kind) in enumerate(zip(types, reads, strict=True)):
            if isinstance(t, TensorType) and kind != "c":
                for d in range(t.ndim):
                    self._places[i, d] = n_given + d
                n_given += t.ndim
        self._nothing = n_before

    def place(self, operand: _ProductOperand, dimension: int | None) -> int:
        return self._nothing if dimension is None else self._places[operand.input, dimension]


class _ProductSizes(NamedTuple):
    m: int
    n: int
    k: int


def usable() -> bool:
    """Whether this CPU multiplies and adds vectors in one instruction: without that, NumPy's BLAS is faster."""
    return machine().processor.multiplies_and_adds


def _bind(
    types: Inputs,
    sizes: _ProductSizes,
    a: _ProductOperand,
    b: _ProductOperand,
    results: tuple[tuple[int, ...], ...],
    stack: tuple[int, ...] = (),
    bias: int | None = None,
    contiguous: tuple[int, ...] = (),
    column_sums: tuple[int, int] = (0, 0),
    given: bool = False,
) -> Bound | None:
    """The call for result[...] = a @ b + bias. `contiguous`: inputs with dimensions that are read as one.

    `column_sums`: rows and columns of the first input, if the second result is the sums of its columns. `given`: b
    comes packed (`gemm.packed`).
    """
    tensors = [t for t in types if isinstance(t, TensorType)]
    dtype = tensors[0].dtype
    element = FLOATS.get(dtype._name)
    if element is None or 0 in (*sizes, *stack) or any(t.dtype is not dtype for t in tensors) or not usable():
        return None
    if given and (stack or sizes.n == 1):
        return None
    spread_bias = 0
    n_products = count(stack)
    parts: Product | None = Product(n_products * sizes.m, sizes.n)
    # A single column is computed as a single row, (a b).T = b.T a.T: variants for few rows read the large operand once.
    # Its bias is then one number for all columns of that row, which no variant adds; it is added at the end.
    if sizes.n == 1 and sizes.m > 1:
        spread_bias = sizes.m if bias is not None else 0
        sizes, parts = _ProductSizes(1, sizes.m, sizes.k), None
        a, b = _ProductOperand(b.input, b.column, b.row, b.stack), _ProductOperand(a.input, a.column, a.row, a.stack)
    is_dot = sizes.n == 1  # then sizes.m is 1, too
    if is_dot:
        b = b._replace(column=None)  # the stride of a single column says nothing, so nothing may depend on it
    gemm = gemm_of(element)
    by_products = n_products >= 4  # threads then share products, not parts of them
    p = plan(*sizes, gemm.t, threads=not by_products, given=given)
    n_chunks = max(1, min(n_products, MAX_CHUNKS, n_products * count(sizes) // CHUNK_PRODUCTS)) if by_products else 1
    # Operands are read in place ("m") unless dimensions are folded, dots want their k contiguous, or B comes packed.
    kinds = ["c" if isinstance(t, TensorType) else "-" for t in types]
    for operand, must_be in ((a, bool(p.dots)), (b, given or is_dot)):
        if types[operand.input].ndim > 1 and not must_be and operand.input not in contiguous:
            kinds[operand.input] = "m"
    strides = _Strides(types, "".join(kinds), _STACK_AT + 3 * len(stack))
    chunk_products = -(-n_products // n_chunks)
    n_chunks, n_inputs = -(-n_products // chunk_products), len(types)
    head = (
        a.input, b.input, n_inputs, -1 if bias is None else bias, n_inputs + len(results) if p.scratch else -1,
        spread_bias,
        strides.place(a, a.row), strides.place(a, a.column), strides.place(b, b.row), strides.place(b, b.column),
        len(stack), n_products, n_chunks, chunk_products, p.scratch, *column_sums, 0,
    )  # fmt: skip
    stacked: list[int] = []
    for d in reversed(range(len(stack))):
        stacked += [stack[d], strides.place(a, a.stack[d]), strides.place(b, b.stack[d])]
    threads = n_chunks > 1 or p.n_chunks > 1
    return Bound(
        build(gemm.symbol("products" + "_shared" * threads), _write_products, gemm, threads),
        "".join(kinds),
        tuple(TensorType(shape, dtype) for shape in results),
        (*p, *gemm.functions(p), *head, *stacked, *strides.known),
        p.scratch * n_chunks,
        parts=parts,
    )


def _stacked(t: TensorType, n_dims: int) -> tuple[int | None, ...]:
    """Which dimension of `t` each dimension of the stack is; None where `t` has none, or one of size 1."""
    n_lead = max(t.ndim - 2, 0)
    own: list[int | None] = [d if t.shape[d] > 1 else None for d in range(n_lead)]
    return (*[None] * (n_dims - n_lead), *own)


@routine("matmul")
def bind_matmul(types: Inputs, attrs: Attrs) -> Bound | None:
    a, b = types
    n_a, n_b = a.ndim, b.ndim
    n = b.shape[-1] if n_b > 1 else 1
    result = (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *a.shape[-2:-1], *b.shape[-1:] * (n_b > 1))
    column = n_b - 1 if n_b > 1 else None
    if n_b <= 2 and n_a > 2:
        left, right = _ProductOperand(0, n_a - 2, n_a - 1), _ProductOperand(1, 0, column)
        return _bind(types, _ProductSizes(count(a.shape[:-1]), n, a.shape[-1]), left, right, (result,), contiguous=(0,))
    stack = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = _ProductOperand(0, n_a - 2 if n_a > 1 else None, n_a - 1, _stacked(a, len(stack)))
    right = _ProductOperand(1, max(n_b - 2, 0), column, _stacked(b, len(stack)))
    sizes, given = _ProductSizes(a.shape[-2] if n_a > 1 else 1, n, a.shape[-1]), attrs.get(PACKED, False)
    return _bind(types, sizes, left, right, (result,), stack, given=given)


@routine("linear")
def bind_linear(types: Inputs, attrs: Attrs) -> Bound | None:
    x, weight, bias = types
    n = weight.shape[0] if weight.ndim == 2 else 1
    if isinstance(bias, TensorType) and (bias.ndim > 1 or count(bias.shape) != n):
        return None
    result = (*x.shape[:-1], *weight.shape[:-1])
    left = _ProductOperand(0, x.ndim - 2 if x.ndim > 1 else None, x.ndim - 1)
    right = _ProductOperand(1, weight.ndim - 1, 0 if weight.ndim == 2 else None)
    sizes = _ProductSizes(count(x.shape[:-1]), n, x.shape[-1])
    folded = (0,) if x.ndim > 2 else ()
    added, given = 2 if isinstance(bias, TensorType) else None, attrs.get(PACKED, False)
    return _bind(types, sizes, left, right, (result,), bias=added, contiguous=folded, given=given)


@routine("linear_gradient")
def bind_linear_gradient(types: Inputs, attrs: Attrs) -> Bound | None:
    g, x = types
    n_rows, n_out, n_in = count(x.shape[:-1]), g.shape[-1], x.shape[-1]
    left = _ProductOperand(0, g.ndim - 1, g.ndim - 2 if g.ndim > 1 else None)
    right = _ProductOperand(1, x.ndim - 2 if x.ndim > 1 else None, x.ndim - 1)
    sizes, sums = _ProductSizes(n_out, n_in, n_rows), (n_rows, n_out)
    return _bind(types, sizes, left, right, ((n_out, n_in), (n_out,)), contiguous=(0, 1), column_sums=sums)
