"""The types of LLVM values and how constants of them are written."""

from __future__ import annotations

import struct


class Type:
    """An LLVM type: its text, what kind it is, and how many lanes and bits per lane it has."""

    __slots__ = ("bits", "kind", "lane", "lanes", "text")

    def __init__(self, text: str, kind: str, bits: int, lane: Type | None = None, lanes: int = 1) -> None:
        self.text = text
        self.kind = kind  # "i" integer, "f" floating, "p" pointer, "v" void
        self.bits = bits
        self.lane = lane or self
        self.lanes = lanes

    @property
    def nbytes(self) -> int:
        """Bytes of one lane in memory."""
        return max(1, self.bits // 8)

    @property
    def suffix(self) -> str:
        """How names of intrinsics write it: `f32`, `v8f32`."""
        lane = f"{self.kind}{self.bits}" if self.kind != "p" else "p0"
        return lane if self.lanes == 1 else f"v{self.lanes}{lane}"

    def __repr__(self) -> str:
        return self.text


void = Type("void", "v", 0)
i1 = Type("i1", "i", 1)
i8 = Type("i8", "i", 8)
i16 = Type("i16", "i", 16)
i32 = Type("i32", "i", 32)
i64 = Type("i64", "i", 64)
f16 = Type("half", "f", 16)
f32 = Type("float", "f", 32)
f64 = Type("double", "f", 64)
ptr = Type("ptr", "p", 64)

_vectors: dict[tuple[Type, int], Type] = {}


def vector(lane: Type, lanes: int) -> Type:
    """`<lanes x lane>`; one lane is the lane itself."""
    if lanes == 1:
        return lane
    found = _vectors.get((lane, lanes))
    if found is None:
        text = f"<{lanes} x {lane.text}>"
        # Types are compared by identity, and another thread may be here, too.
        found = _vectors.setdefault((lane, lanes), Type(text, lane.kind, lane.bits, lane, lanes))
    return found


def with_lanes(type_: Type, lanes: int) -> Type:
    """The type of the same lane with another number of them."""
    return vector(type_.lane, lanes)


def literal(type_: Type, value: float | int | bool) -> str:
    """A constant as IR writes it; the same in every lane."""
    lane = type_.lane
    if lane.kind == "f":
        number = float(value)
        if lane is f32:
            number = _as_f32(number)
        elif lane is f16:
            number = struct.unpack("<e", struct.pack("<e", number))[0]
        text = f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
        if lane is f16:
            text = f"0xH{struct.unpack('<H', struct.pack('<e', number))[0]:04X}"
    elif lane.kind == "p":
        text = "null"
    elif lane is i1:
        text = "true" if value else "false"
    else:
        text = str(int(value))
    if type_.lanes == 1:
        return text
    return "<" + ", ".join([f"{lane.text} {text}"] * type_.lanes) + ">"


def _as_f32(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
