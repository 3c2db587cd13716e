"""What instructions compute, as Python objects: operators and indexing write further ones; and where they all end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .types import Type, i64, ptr, vector

if TYPE_CHECKING:
    from .builder import IRFunction


class Value:
    """Something computed: its type and the name (or literal) it has in the text. Operators emit instructions."""

    __slots__ = ("b", "text", "type")

    def __init__(self, b: IRFunction, type_: Type, text: str) -> None:
        self.b = b
        self.type = type_
        self.text = text

    def __repr__(self) -> str:
        return f"{self.type.text} {self.text}"

    def __add__(self, other: Operand) -> Value:
        return self.b.arithmetic("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return self.b.arithmetic("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return self.b.arithmetic("sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self.b.arithmetic("sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return self.b.arithmetic("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self.b.arithmetic("mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self.b.arithmetic("div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self.b.arithmetic("div", other, self)

    def __floordiv__(self, other: Operand) -> Value:
        return self.b.arithmetic("div", self, other)

    def __mod__(self, other: Operand) -> Value:
        return self.b.arithmetic("rem", self, other)

    def __and__(self, other: Operand) -> Value:
        return self.b.binary("and", self, other)

    def __or__(self, other: Operand) -> Value:
        return self.b.binary("or", self, other)

    def __xor__(self, other: Operand) -> Value:
        return self.b.binary("xor", self, other)

    def __lshift__(self, other: Operand) -> Value:
        return self.b.binary("shl", self, other)

    def __rshift__(self, other: Operand) -> Value:
        return self.b.binary("ashr", self, other)

    def __neg__(self) -> Value:
        if self.type.kind == "f":
            return self.b.emit(self.type, f"fneg {self.type.text} {self.text}")
        return self.b.arithmetic("sub", 0, self)

    def __invert__(self) -> Value:
        return self.b.binary("xor", self, -1 if self.type.bits > 1 else 1)

    def __lt__(self, other: Operand) -> Value:
        return self.b.compare("<", self, other)

    def __le__(self, other: Operand) -> Value:
        return self.b.compare("<=", self, other)

    def __gt__(self, other: Operand) -> Value:
        return self.b.compare(">", self, other)

    def __ge__(self, other: Operand) -> Value:
        return self.b.compare(">=", self, other)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override] # an instruction, not an answer
        return self.b.compare("==", self, other)

    def __ne__(self, other: Any) -> Value:  # type: ignore[override] # an instruction, not an answer
        return self.b.compare("!=", self, other)

    def __bool__(self) -> bool:
        raise TypeError("a value has no truth while code is written; use b.if_(condition) or b.select")

    __hash__ = object.__hash__


Operand = Value | float | int | bool


class IRVariable:
    """A local that can be set again."""

    __slots__ = ("address", "b", "type")

    def __init__(self, b: IRFunction, type_: Type, address: str) -> None:
        self.b = b
        self.type = type_
        self.address = address

    @property
    def value(self) -> Value:
        return self.b.emit(self.type, f"load {self.type.text}, ptr {self.address}")

    def set(self, value: Operand) -> None:
        v = self.b.as_value(value, self.type)
        self.b.line(f"store {v.type.text} {v.text}, ptr {self.address}")


class Pointer:
    """A pointer to elements of one type: `p[i]` loads, `p[i] = v` stores, `p + i` moves by elements."""

    __slots__ = ("address", "element")

    def __init__(self, address: Value, element: Type) -> None:
        self.address = address
        self.element = element

    def at(self, index: Operand) -> Value:
        """The address of element `index`."""
        b = self.address.b
        i = b.as_value(index, i64)
        if i.text == "0":
            return self.address
        if self.address.text[0] == "@" and i.text[0] != "%":  # both are known: no instruction
            return Value(b, ptr, f"getelementptr ({self.element.text}, ptr {self.address.text}, i64 {i.text})")
        return b.emit(ptr, f"getelementptr {self.element.text}, ptr {self.address.text}, i64 {i.text}")

    def __add__(self, index: Operand) -> Pointer:
        return Pointer(self.at(index), self.element)

    def __getitem__(self, index: Operand) -> Value:
        return self.address.b.load(self.element, self.at(index))

    def __setitem__(self, index: Operand, value: Operand) -> None:
        self.address.b.store(self.address.b.as_value(value, self.element), self.at(index))

    def vector(self, index: Operand, lanes: int) -> Value:
        """`lanes` neighbouring elements from `index` on."""
        return self.address.b.load(vector(self.element, lanes), self.at(index))

    def set_vector(self, index: Operand, value: Value) -> None:
        self.address.b.store(value, self.at(index))


class WayOut:
    """A block that ends a function, to be jumped to. What it reads must be there wherever that is done."""

    __slots__ = ("b", "label", "taken", "write")

    def __init__(self, b: IRFunction, label: str, write: Callable[[], None]) -> None:
        self.b = b
        self.label = label
        self.write = write
        self.taken = False

    def take(self) -> None:
        self.taken = True
        self.b.jump(self.label)

    def take_if(self, condition: Value) -> None:
        self.taken = True
        after = self.b.label("after")
        self.b.branch(condition, self.label, after)
        self.b.start(after)

    def take_unless(self, condition: Value) -> None:
        self.taken = True
        after = self.b.label("after")
        self.b.branch(condition, after, self.label)
        self.b.start(after)
