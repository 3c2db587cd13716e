"""LLVM IR as text, written from Python: typed values with operators, `with` blocks for loops and branches.

Python code in, IR text out; nothing here knows llvmlite. A function's locals are allocas, which the one pass that we
run (SROA) turns into registers, so a variable can simply be set again. No fast-math flag is ever written: a value is
the same whether it is computed alone or in the middle of a fused kernel.

    module = IRModule()
    with module.function("scale", void, x=ptr, n=i64, factor=f32) as b:
        values = b.pointer(b.arg("x"), f32)
        with b.loop(0, b.arg("n")) as i:
            values[i] = values[i] * b.arg("factor")
    module.text()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .types import Type as Type
from .types import f16 as f16
from .types import f32 as f32
from .types import f64 as f64
from .types import i1 as i1
from .types import i8 as i8
from .types import i16 as i16
from .types import i32 as i32
from .types import i64 as i64
from .types import literal as literal
from .types import ptr as ptr
from .types import vector as vector
from .types import void as void
from .types import with_lanes as with_lanes
from .values import IRVariable as IRVariable
from .values import Operand as Operand
from .values import Pointer as Pointer
from .values import Value as Value
from .values import WayOut as WayOut

_COMPARE_INT = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
_COMPARE_FLOAT = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}
_ARITHMETIC_INT = {"add": "add", "sub": "sub", "mul": "mul", "div": "sdiv", "rem": "srem"}


class IRFunction:
    """The body of one function while it is written: the current block and its instructions."""

    def __init__(self, module: IRModule, name: str, returns: Type, args: dict[str, Type]) -> None:
        self.module = module
        self.name = name
        self.returns = returns
        self._args = {n: Value(self, t, f"%{n}") for n, t in args.items()}
        self._lines: list[str] = []
        self._allocas: list[str] = []
        self._count = 0
        self._ended = False
        self._loops: list[tuple[str, str]] = []
        self._continued: set[str] = set()
        self._ways_out: list[WayOut] = []
        self.internal = False

    # ---- values

    def arg(self, name: str) -> Value:
        """An argument of the function."""
        return self._args[name]

    def const(self, type_: Type, value: float | int | bool) -> Value:
        return Value(self, type_, literal(type_, value))

    def bits(self, type_: Type, pattern: int) -> Value:
        """A floating constant given by its bits, the same in every lane."""
        integer = with_lanes({16: i16, 32: i32, 64: i64}[type_.bits], type_.lanes)
        sign = 1 << (type_.bits - 1)
        return self.bitcast(self.const(integer, (pattern ^ sign) - sign), type_)

    def lanes(self, type_: Type, values: Sequence[float | int]) -> Value:
        """A vector constant with different lanes."""
        inside = ", ".join(f"{type_.lane.text} {literal(type_.lane, v)}" for v in values)
        return Value(self, type_, f"<{inside}>")

    def as_value(self, value: Any, type_: Type) -> Value:
        """A value of that type from a number, or the value itself, spread over lanes if it has one lane."""
        if not isinstance(value, Value):
            return self.const(type_, value)
        if value.type.lanes == 1 and type_.lanes > 1:
            return self.splat(value, type_.lanes)
        return value

    def emit(self, type_: Type, instruction: str) -> Value:
        self._count += 1
        name = f"%t{self._count}"  # a bare number would have to follow the last one
        self._lines.append(f"  {name} = {instruction}")
        return Value(self, type_, name)

    def line(self, instruction: str) -> None:
        self._lines.append("  " + instruction)

    @property
    def n_lines(self) -> int:
        """How many there are so far: what LLVM will take is about proportional to that."""
        return len(self._lines)

    # ---- arithmetic

    def _pair(self, x: Any, y: Any) -> tuple[Value, Value]:
        guide = x if isinstance(x, Value) and (not isinstance(y, Value) or x.type.lanes >= y.type.lanes) else y
        return self.as_value(x, guide.type), self.as_value(y, guide.type)

    def arithmetic(self, name: str, x: Any, y: Any) -> Value:
        a, b = self._pair(x, y)
        if a.type is not b.type:
            raise TypeError(f"{name}: operands are {a.type} and {b.type}")
        code = "f" + name if a.type.kind == "f" else _ARITHMETIC_INT[name]
        return self.emit(a.type, f"{code} {a.type.text} {a.text}, {b.text}")

    def binary(self, code: str, x: Any, y: Any) -> Value:
        """An instruction of two operands of one type, by its LLVM name."""
        a, b = self._pair(x, y)
        return self.emit(a.type, f"{code} {a.type.text} {a.text}, {b.text}")

    def compare(self, sign: str, x: Any, y: Any, unsigned: bool = False) -> Value:
        a, b = self._pair(x, y)
        floating = a.type.kind == "f"
        code = (_COMPARE_FLOAT if floating else _COMPARE_INT)[sign]
        if a.type.kind == "p" or (unsigned and not floating):
            code = code.replace("s", "u") if code[0] == "s" else code
        text = f"{'fcmp' if floating else 'icmp'} {code} {a.type.text} {a.text}, {b.text}"
        return self.emit(vector(i1, a.type.lanes), text)

    def select(self, condition: Value, x: Any, y: Any) -> Value:
        a, b = self._pair(x, y)
        c = self.as_value(condition, vector(i1, a.type.lanes))
        return self.emit(a.type, f"select {c.type.text} {c.text}, {a.type.text} {a.text}, {b.type.text} {b.text}")

    def smaller(self, x: Value, y: Operand) -> Value:
        """The smaller one; `y` where floats cannot be compared."""
        return self.select(x < y, x, y)

    def larger(self, x: Value, y: Operand) -> Value:
        """The larger one; `y` where floats cannot be compared."""
        return self.select(x > y, x, y)

    def cast(self, code: str, x: Value, to: Type) -> Value:
        """sext, zext, trunc, sitofp, fptosi, fpext, fptrunc, ...; lanes are kept."""
        target = with_lanes(to, x.type.lanes)
        return self.emit(target, f"{code} {x.type.text} {x.text} to {target.text}")

    def bitcast(self, x: Value, to: Type) -> Value:
        if x.type is to:
            return x
        return self.emit(to, f"bitcast {x.type.text} {x.text} to {to.text}")

    def intrinsic(self, name: str, *args: Value, returns: Type | None = None) -> Value:
        """`llvm.name` for the type of the first argument."""
        out = returns or args[0].type
        full = f"llvm.{name}.{args[0].type.suffix}"
        return self.call(self.module.declare(full, out, [a.type for a in args]), *args)

    def fma(self, x: Any, y: Any, z: Any) -> Value:
        """x * y + z with one rounding."""
        guide = max((v for v in (x, y, z) if isinstance(v, Value)), key=lambda v: v.type.lanes)
        return self.intrinsic("fma", *(self.as_value(v, guide.type) for v in (x, y, z)))

    # ---- lanes

    def splat(self, x: Value, lanes: int) -> Value:
        """The same value in every lane."""
        type_ = vector(x.type, lanes)
        first = self.emit(type_, f"insertelement {type_.text} poison, {x.type.text} {x.text}, i32 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.emit(type_, f"shufflevector {type_.text} {first.text}, {type_.text} poison, {zeros}")

    def extract(self, x: Value, lane: int | Value) -> Value:
        index = self.as_value(lane, i32)
        return self.emit(x.type.lane, f"extractelement {x.type.text} {x.text}, {index.type.text} {index.text}")

    def insert(self, x: Value, value: Value, lane: int) -> Value:
        return self.emit(x.type, f"insertelement {x.type.text} {x.text}, {value.type.text} {value.text}, i32 {lane}")

    def undefined(self, type_: Type) -> Value:
        return Value(self, type_, "poison")

    def shuffle(self, x: Value, y: Value, order: Sequence[int]) -> Value:
        """Lanes picked from x (0..) and y (after them)."""
        type_ = vector(x.type.lane, len(order))
        mask = f"<{len(order)} x i32> <{', '.join(f'i32 {i}' for i in order)}>"
        return self.emit(type_, f"shufflevector {x.type.text} {x.text}, {y.type.text} {y.text}, {mask}")

    def fold_lanes(self, x: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """One value from all lanes, halves first: lane i with lane i + n/2, and so on."""
        while x.type.lanes > 1:
            half = x.type.lanes // 2
            if half == 1:
                low, high = self.extract(x, 0), self.extract(x, 1)
            else:
                low, high = self.shuffle(x, x, range(half)), self.shuffle(x, x, range(half, 2 * half))
            x = combine(low, high)
        return x

    # ---- memory

    def pointer(self, address: Value, element: Type) -> Pointer:
        return Pointer(address, element)

    def load(self, type_: Type, address: Value) -> Value:
        align = type_.lane.nbytes
        return self.emit(type_, f"load {type_.text}, ptr {address.text}, align {align}")

    def store(self, value: Value, address: Value) -> None:
        align = value.type.lane.nbytes
        self.line(f"store {value.type.text} {value.text}, ptr {address.text}, align {align}")

    def field(self, type_: Type, base: Value, offset: int) -> Value:
        """A field of a C struct, by its offset in bytes."""
        return self.load(type_, self.byte_offset(base, offset))

    def set_field(self, base: Value, offset: int, value: Value) -> None:
        self.store(value, self.byte_offset(base, offset))

    def byte_offset(self, base: Value, offset: Operand) -> Value:
        """`base` moved by that many bytes."""
        i = self.as_value(offset, i64)
        if i.text == "0":
            return base
        return self.emit(ptr, f"getelementptr i8, ptr {base.text}, i64 {i.text}")

    def var(self, type_: Type, initial: Operand | None = None) -> IRVariable:
        """A local variable."""
        v = IRVariable(self, type_, self._alloca(type_.text, None))
        if initial is not None:
            v.set(initial)
        return v

    def array(self, element: Type, count: int, align: int = 64) -> Pointer:
        """Memory on the stack for the time of the call."""
        name = self._alloca(f"[{count} x {element.text}]", align)
        return Pointer(Value(self, ptr, name), element)

    def _alloca(self, text: str, align: int | None) -> str:
        self._count += 1
        name = f"%v{self._count}"
        self._allocas.append(f"  {name} = alloca {text}" + (f", align {align}" if align else ""))
        return name

    def masked_load(self, address: Value, mask: Value, otherwise: Value) -> Value:
        """The lanes where the mask holds; the others are not touched in memory."""
        type_ = otherwise.type
        declared = self.module.declare(f"llvm.masked.load.{type_.suffix}.p0", type_, [ptr, i32, mask.type, type_])
        return self.call(declared, address, self.const(i32, type_.lane.nbytes), mask, otherwise)

    def masked_store(self, value: Value, address: Value, mask: Value) -> None:
        declared = self.module.declare(
            f"llvm.masked.store.{value.type.suffix}.p0", void, [value.type, ptr, i32, mask.type]
        )
        self.call(declared, value, address, self.const(i32, value.type.lane.nbytes), mask)

    # ---- calls and flow

    def call(self, callee: Callee, *args: Operand) -> Value:
        values = [self.as_value(a, t) for a, t in zip(args, callee.args, strict=True)]
        listed = ", ".join(f"{v.type.text} {v.text}" for v in values)
        text = f"call {callee.returns.text} @{callee.name}({listed})"
        return self._called(callee.returns, text)

    def call_address(self, address: Value, returns: Type, *args: Value) -> Value:
        """Call a function by its address."""
        listed = ", ".join(f"{v.type.text} {v.text}" for v in args)
        return self._called(returns, f"call {returns.text} {address.text}({listed})")

    def _called(self, returns: Type, text: str) -> Value:
        if returns is void:
            self.line(text)
            return Value(self, void, "")
        return self.emit(returns, text)

    def ret(self, value: Operand | None = None) -> None:
        if value is None:
            self.line("ret void")
        else:
            v = self.as_value(value, self.returns)
            self.line(f"ret {v.type.text} {v.text}")
        self._ended = True

    def label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, label: str) -> None:
        """Begin a block."""
        self._lines.append(f"{label}:")
        self._ended = False

    def jump(self, label: str) -> None:
        if not self._ended:
            self.line(f"br label %{label}")
            self._ended = True

    def branch(self, condition: Value, yes: str, no: str) -> None:
        self.line(f"br i1 {condition.text}, label %{yes}, label %{no}")
        self._ended = True

    def way_out(self, write: Callable[[], None]) -> WayOut:
        """What many places of the function end in, written once, behind everything else; it must end in `ret`."""
        made = WayOut(self, self.label("out"), write)
        self._ways_out.append(made)
        return made

    def write_ways_out(self) -> None:
        """The last lines of the function."""
        for way in self._ways_out:  # one that is written here may take another
            if way.taken:
                self.start(way.label)
                way.write()

    @contextmanager
    def if_(self, condition: Value) -> Iterator[None]:
        """`with b.if_(c): ...`; where there is an else, see `if_else`."""
        yes, after = self.label("then"), self.label("after")
        self.branch(condition, yes, after)
        self.start(yes)
        yield
        self.jump(after)
        self.start(after)

    def if_else(self, condition: Value) -> tuple[Any, Any]:
        """Two `with` blocks, to be entered one after the other: `then, otherwise = b.if_else(c)`."""
        yes, no, after = self.label("then"), self.label("else"), self.label("after")

        @contextmanager
        def then() -> Iterator[None]:
            self.branch(condition, yes, no)
            self.start(yes)
            yield
            self.jump(after)

        @contextmanager
        def otherwise() -> Iterator[None]:
            self.start(no)
            yield
            self.jump(after)
            self.start(after)

        return then(), otherwise()

    @contextmanager
    def loop(self, start: Operand, stop: Operand, step: Operand = 1) -> Iterator[Value]:
        """Count from `start` up to, not including, `stop`."""
        counter = self.var(i64, start)
        end = self.as_value(stop, i64)
        with self.while_(lambda: counter.value < end) as again:
            i = counter.value
            yield i
            again()
            counter.set(counter.value + step)

    @contextmanager
    def while_(self, condition: Callable[[], Value]) -> Iterator[Callable[[], None]]:
        """Run while the condition holds; `break_` leaves, `continue_` starts over (after what follows `again()`)."""
        head, body, again, after = (self.label(h) for h in ("head", "body", "again", "done"))
        self.jump(head)
        self.start(head)
        self.branch(condition(), body, after)
        self.start(body)
        self._loops.append((again, after))
        opened = [False]

        def begin_again() -> None:
            opened[0] = True
            if again in self._continued or self._ended:  # every block costs LLVM time
                self.jump(again)
                self.start(again)

        yield begin_again
        if not opened[0]:
            begin_again()
        self.jump(head)
        self._loops.pop()
        self.start(after)

    def break_(self) -> None:
        """Leave the innermost loop."""
        self.jump(self._loops[-1][1])

    def continue_(self) -> None:
        """Go on with the next turn of the innermost loop."""
        self._continued.add(self._loops[-1][0])
        self.jump(self._loops[-1][0])

    def text(self) -> str:
        listed = ", ".join(f"{v.type.text} {v.text}" for v in self._args.values())
        linkage = "internal " if self.internal else ""
        head = f"define {linkage}{self.returns.text} @{self.name}({listed}) {{"
        return "\n".join([head, "entry:", *self._allocas, *self._lines, "}"])


class Callee:
    """A function that can be called: defined in the module or declared."""

    __slots__ = ("args", "name", "returns")

    def __init__(self, name: str, returns: Type, args: list[Type]) -> None:
        self.name = name
        self.returns = returns
        self.args = args


class IRModule:
    """Functions, declarations and globals of one unit of compilation."""

    def __init__(self) -> None:
        self._functions: list[IRFunction] = []
        self._declared: dict[str, Callee] = {}
        self._globals: list[str] = []
        self.defined: dict[str, Callee] = {}

    @contextmanager
    def function(self, name: str, returns: Type, /, internal: bool = False, **args: Type) -> Iterator[IRFunction]:
        """Write a function; a `ret void` at its end may be left out. `self.defined[name]` can be called afterwards."""
        b = IRFunction(self, name, returns, args)
        b.internal = internal
        self.defined[name] = Callee(name, returns, list(args.values()))
        yield b
        if not b._ended:
            if returns is void:
                b.ret()
            else:
                b.line("unreachable")
        b.write_ways_out()
        self._functions.append(b)

    def declare(self, name: str, returns: Type, args: Sequence[Type]) -> Callee:
        """A function from elsewhere: an intrinsic, the C library, Python's or another routine."""
        if name in self.defined:
            return self.defined[name]
        found = self._declared.get(name)
        if found is None:
            found = self._declared[name] = Callee(name, returns, list(args))
        return found

    def global_(self, name: str, type_: Type, count: int = 1) -> str:
        """Zero-initialised memory of the module's own; returns its name for `IRFunction.global_address`."""
        text = type_.text if count == 1 else f"[{count} x {type_.text}]"
        self._globals.append(f"@{name} = internal global {text} zeroinitializer, align 64")
        return name

    def table_of(self, name: str, functions: Sequence[str]) -> str:
        """The addresses of functions of this module, one after the other, as a global of that name."""
        listed = ", ".join(f"ptr @{function}" for function in functions)
        self._globals.append(f"@{name} = internal constant [{len(functions)} x ptr] [{listed}], align 64")
        return name

    def address_of(self, b: IRFunction, name: str) -> Value:
        """The address of a global or function of this module."""
        return Value(b, ptr, f"@{name}")

    @property
    def imports(self) -> list[str]:
        """The declared functions that must be found elsewhere."""
        return [n for n in self._declared if not n.startswith("llvm.") and n not in self.defined]

    def text(self) -> str:
        declared = [
            f"declare {c.returns.text} @{c.name}({', '.join(a.text for a in c.args)})"
            for n, c in self._declared.items()
            if n not in self.defined
        ]
        return "\n".join([*self._globals, *declared, *(f.text() for f in self._functions), ""])
