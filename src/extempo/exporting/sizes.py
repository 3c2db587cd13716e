"""Sizes of a program that are known only when it runs: polynomials in named sizes, computed while a model is traced.

A `SizeExpr` is what a program keeps: `2 * time + 1`, `batch * time // 4`, `max(0, time - 1)`. While tracing, a `SymInt`
stands for it, with a value to decide by, and a `SizeLog` notes what is computed and decided. What a polynomial decides
for all sizes is decided; anything else that Python code (not a shape rule) decides becomes a `Guard` of the program,
with its line; and code that must have the very number gets an error with that line.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from ..core.graph import Graph, describe_where
from ..core.source_location import user_line
from ..core.types import WeakNumber
from ..errors import ExportError, ExtempoError, ShapeError
from ..symbolic.sym_int import GuardLog, SymInt
from ..symbolic.sym_int import at_least_0 as size_at_least_0

MAX_TEXT = 2_000  # characters of one expression in a file
MAX_SIZE = 2**62
FOUND = "found_"  # begins the names of sizes that values decide
_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "//": operator.floordiv,
    "%": operator.mod,
    "/": operator.truediv,
    "*": operator.mul,
    "+": operator.add,
    "-": operator.sub,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    **{name: getattr(math, name) for name in ("ceil", "exp", "floor", "log", "log10", "log1p", "log2", "sqrt")},
    "int": int,
    "round": round,
}
_WHOLE_FUNCTIONS = frozenset(("ceil", "floor", "int", "round"))
_COMPARISONS: Mapping[str, Callable[..., Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED = str.maketrans("<>", "><")
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class Opaque(NamedTuple):
    """Part of a size that is no polynomial: `a // b`, `sqrt(a)`, or max(0, a), whose `sign` is "max0"."""

    sign: str
    parts: tuple[SizeExpr, ...]

    def __str__(self) -> str:
        if self.sign == "max0":
            return f"max(0, {self.parts[0]})"
        if self.sign in FUNCTIONS:
            return f"{self.sign}({self.parts[0]})"
        return f"({self.parts[0].grouped()} {self.sign} {self.parts[1].grouped()})"


Factor = str | Opaque
Terms = dict[tuple[Factor, ...], Any]  # the factors of a term, and its coefficient


class SizeExpr(WeakNumber):
    """A size as a polynomial in named sizes. It is a value: equal expressions are equal."""

    __slots__ = ("terms",)

    def __init__(self, terms: Terms) -> None:
        kept = [(factors, c) for factors, c in terms.items() if c]
        self.terms = tuple(sorted(kept, key=lambda term: (-len(term[0]), str(term[0]))))

    @classmethod
    def of(cls, value: Any) -> SizeExpr:
        """Of a name, a number or an expression."""
        if isinstance(value, SizeExpr):
            return value
        return cls({(value,): 1}) if isinstance(value, str | Opaque) else cls({(): value})

    @property
    def constant(self) -> Any:
        """The number, if it is one; None if sizes are in it."""
        if any(factors for factors, _ in self.terms):
            return None
        return self.terms[0][1] if self.terms else 0

    @property
    def is_whole(self) -> bool:
        """Whether all coefficients are ints, so that it can be reordered without rounding."""
        return all(type(c) is int for _, c in self.terms)

    def names(self) -> Iterator[str]:
        """The named sizes in it."""
        for factors, _ in self.terms:
            for factor in factors:
                if isinstance(factor, str):
                    yield factor
                else:
                    for part in factor.parts:
                        yield from part.names()

    def evaluate(self, sizes: Mapping[str, int]) -> Any:
        """The number that it is for these sizes."""
        total: Any = 0
        for factors, coefficient in self.terms:
            term = coefficient
            for factor in factors:
                value = sizes[factor] if isinstance(factor, str) else _opaque_value(factor, sizes)
                term = value if term == 1 and type(term) is int else term * value
            total = term if total == 0 and type(total) is int else total + term
        return total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeExpr) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def grouped(self) -> str:
        """The text, in brackets if it is more than one factor."""
        text = str(self)
        return text if len(self.terms) <= 1 and " " not in text.replace(", ", ",") else f"({text})"

    def __str__(self) -> str:
        text = ""
        for factors, coefficient in self.terms:
            negative = coefficient < 0
            parts = [] if factors and abs(coefficient) == 1 else [repr(abs(coefficient))]
            term = " * ".join([*parts, *map(str, factors)])
            text += (f" {'-' if negative else '+'} " if text else "-" if negative else "") + term
        return text or "0"

    __repr__ = __str__


def _opaque_value(factor: Opaque, sizes: Mapping[str, int]) -> Any:
    values = [part.evaluate(sizes) for part in factor.parts]
    if factor.sign == "max0":
        return size_at_least_0(values[0])
    if factor.sign in ("//", "%") and values[1] == 0:
        return 0  # a size divided by an empty one is about no elements
    if factor.sign in ("**", "<<") and abs(values[1]) > 64:
        raise ExportError(f"sizes: {factor} is too large a number")
    try:
        return FUNCTIONS[factor.sign](*values) if factor.sign in FUNCTIONS else _OPERATIONS[factor.sign](*values)
    except (ArithmeticError, ValueError) as error:
        raise ShapeError(f"sizes: {factor} has no value for these sizes ({error})") from None


# ---- arithmetic


def computed(sign: str, a: SizeExpr, b: SizeExpr) -> SizeExpr:
    """a <sign> b, as a polynomial where it is one."""
    if a.is_whole and b.is_whole:
        if sign in "+-":
            terms = dict(a.terms)
            for factors, c in b.terms:
                terms[factors] = terms.get(factors, 0) + (c if sign == "+" else -c)
            return SizeExpr(terms)
        if sign == "*":
            return _product(a, b)
        if sign in ("//", "%"):
            quotient = _exact_quotient(a, b)
            if quotient is not None:
                return quotient if sign == "//" else SizeExpr.of(0)
    if a.constant is not None and b.constant is not None:
        return SizeExpr.of(_OPERATIONS[sign](a.constant, b.constant))
    return SizeExpr.of(Opaque(sign, (a, b)))


def at_least_0(a: SizeExpr) -> SizeExpr:
    """max(0, a)."""
    if a.constant is not None:
        return SizeExpr.of(max(0, a.constant))
    return a if never_negative(a) else SizeExpr.of(Opaque("max0", (a,)))


def never_negative(a: SizeExpr) -> bool:
    """Whether it is 0 or more whatever the sizes, as far as signs of coefficients tell."""
    return all(c >= 0 and all(_factor_is_size(f) for f in factors) for factors, c in a.terms)


def _factor_is_size(factor: Factor) -> bool:
    if isinstance(factor, str) or factor.sign in ("max0", "%"):
        return True
    return factor.sign in ("//", "/", "*", "+") and all(never_negative(p) for p in factor.parts)


def _product(a: SizeExpr, b: SizeExpr) -> SizeExpr:
    terms: Terms = {}
    for f, c in a.terms:
        for g, d in b.terms:
            factors = tuple(sorted((*f, *g), key=str))
            terms[factors] = terms.get(factors, 0) + c * d
    return SizeExpr(terms)


def _exact_quotient(a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
    """a // b where every term of a is a multiple of the one term of b, and what is left of it is a whole number."""
    if len(b.terms) != 1 or not b.terms[0][1]:
        return None
    (divisor, by), *_ = b.terms
    terms: Terms = {}
    for factors, c in a.terms:
        rest = list(factors)
        for f in divisor:
            if f not in rest:
                return None
            rest.remove(f)
        if c % by or not all(map(_is_whole_factor, rest)):
            return None
        terms[tuple(rest)] = c // by
    return SizeExpr(terms)


def _is_whole_factor(factor: Factor) -> bool:
    """Whether it is a whole number whatever the sizes."""
    if isinstance(factor, str) or factor.sign in _WHOLE_FUNCTIONS:
        return True
    if factor.sign not in ("//", "%", "max0", "+", "-", "*"):
        return False
    return all(part.is_whole and all(map(_is_whole_factor, fs)) for part in factor.parts for fs, _ in part.terms)


# ---- text


def unreadable(message: str) -> ExtempoError:
    """A FileFormatError; its room, which branches and loops do without, is loaded only now."""
    from ..serialization.files import FileFormatError

    return FileFormatError(message)


def parse_size(text: str) -> SizeExpr:
    """The inverse of `str`; what is no such expression is a FileFormatError."""
    if len(text) > MAX_TEXT:
        raise unreadable(f"sizes: an expression of {len(text)} characters is longer than any that is written")
    try:
        return size_from(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ArithmeticError):
        raise unreadable(f"sizes: {text[:80]!r} is no expression of sizes") from None


_SIGNS: Mapping[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Div: "/", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip


def size_from(node: ast.expr) -> SizeExpr:
    """The expression that a tree of Python is; ValueError if it is none."""
    if isinstance(node, ast.Constant):
        value = node.value
        if type(value) not in (int, float) or not -MAX_SIZE <= value <= MAX_SIZE:  # type: ignore[operator] # a number
            raise ValueError("no size")
        return SizeExpr.of(value)
    if isinstance(node, ast.Name):
        return SizeExpr.of(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return computed("-", SizeExpr.of(0), size_from(node.operand))
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        left, right = size_from(node.left), size_from(node.right)
        if left.constant is not None and right.constant is not None and isinstance(node.op, ast.Pow | ast.LShift):
            raise ValueError("a power of numbers is never written")
        return computed(_SIGNS[type(node.op)], left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "max" and len(node.args) == 2:
        return at_least_0(size_from(node.args[1]))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
        (argument,) = node.args
        return SizeExpr.of(Opaque(node.func.id, (size_from(argument),)))
    raise ValueError("no expression of sizes")


# ---- while tracing


class Guard(NamedTuple):
    """What Python code decided by sizes while it was traced: `left <sign> right` holds, at this line."""

    left: SizeExpr
    sign: str
    right: SizeExpr
    line: str
    by_library: bool = False  # a function of Extempo decided, in the course of the call at that line

    def names(self) -> set[str]:
        """The named sizes in it."""
        return {*self.left.names(), *self.right.names()}

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return bool(self.holds_for(self.left.evaluate(sizes), self.right.evaluate(sizes)))

    def holds_for(self, left: Any, right: Any) -> Any:
        """Whether it holds for these values of both sides; of arrays, for each of their elements."""
        return _COMPARISONS[self.sign](left, right)

    def contradicts(self, other: Guard) -> bool:
        """Whether it holds where the other does not, and only there."""
        return (self.left, _OPPOSITE[self.sign], self.right) == (other.left, other.sign, other.right)

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


def parse_guard(text: str, line: str) -> Guard:
    """The inverse of `str`."""
    for sign in ("==", "!=", "<=", ">=", "<", ">"):
        left, found, right = text.partition(f" {sign} ")
        if found:
            return Guard(parse_size(left), sign, parse_size(right), line)
    raise unreadable(f"sizes: {text[:80]!r} is no comparison of sizes")


class SizeLog(GuardLog):
    """Symbolic sizes of one trace: each name with the value to decide by, and what was decided."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols: dict[str, SymInt] = {}
        self.guards: dict[str, Guard] = {}
        self.n_decided = 0  # comparisons whose answer depends on the sizes
        self.in_rule = 0  # inside shape rules: those are asked again for the sizes of each run
        self._expressions: dict[str, SizeExpr] = {}

    def symbol(self, name: str, value: int) -> SymInt:
        """The symbolic size of that name."""
        if name not in self.symbols:
            self.symbols[name] = self._standing_for(SizeExpr.of(name), value)
        return self.symbols[name]

    def found(self) -> SymInt:
        """A size that values decide, by a new name. The value to decide by is unlike 0, 1 and sizes of examples."""
        n = sum(name.startswith(FOUND) for name in self.symbols)
        name = next(name for i in itertools.count(n) if (name := f"{FOUND}{i}") not in self.symbols)
        return self.symbol(name, 1013 + 6 * n)

    def _standing_for(self, expression: SizeExpr, value: Any) -> Any:
        if expression.constant is not None:
            return expression.constant
        made = SymInt(value, str(expression), self)
        self._expressions[made.name] = expression
        return made

    def expression(self, x: Any) -> SizeExpr:
        """What a symbol, or a number, stands for."""
        return self._expressions[x.name] if type(x) is SymInt else SizeExpr.of(x)

    def compute(self, sign: str, fn: Callable[..., Any], a: Any, b: Any) -> Any:
        value = fn(*(x.value if type(x) is SymInt else x for x in (a, b)))
        return self._standing_for(computed(sign, self.expression(a), self.expression(b)), value)

    def function(self, name: str, a: SymInt) -> Any:
        """One of `FUNCTIONS` of a size."""
        return self._standing_for(SizeExpr.of(Opaque(name, (self.expression(a),))), FUNCTIONS[name](a.value))

    def at_least_0(self, a: Any) -> Any:
        """max(0, a) for all sizes, without a decision."""
        return self._standing_for(at_least_0(self.expression(a)), max(0, a.value if type(a) is SymInt else a))

    def decide(self, sign: str, fn: Callable[..., Any], a: Any, b: Any) -> bool:
        left, right = self.expression(a), self.expression(b)
        always = _always(sign, left, right)
        if always is not None:
            return always
        answer = bool(fn(*(x.value if type(x) is SymInt else x for x in (a, b))))
        self.n_decided += 1
        if not self.in_rule:
            told = sign if answer else _OPPOSITE[sign]
            guard = Guard(*_upright(left, told, right), describe_where(user_line()), _library_decides())
            known = self.guards.setdefault(str(guard), guard)
            if known.by_library and not guard.by_library:
                self.guards[str(guard)] = guard
        return answer

    def fix(self, symbol: SymInt) -> NoReturn:
        """Somebody must have the number itself."""
        from .source import why_not_converted  # programs that only run need no source

        where = user_line()
        why_not = "" if where is None else why_not_converted(where[0])
        raise ExportError(
            f"{describe_where(where)}: the size {symbol.name} is needed as a number here (range, int(), a list of that "
            "length, a key), so the program would hold for one size only; compute with the size itself, loop with "
            f"ex.scan or ex.while_loop, or take it out of dynamic= to export this size alone{why_not}",
        )

    def key(self, symbol: SymInt) -> NoReturn:
        """Found by its number, it would be another one at another size."""
        self.fix(symbol)

    def text(self, symbol: SymInt) -> str:
        """In messages it stands by its name."""
        return symbol.name


def _upright(left: SizeExpr, sign: str, right: SizeExpr) -> tuple[SizeExpr, str, SizeExpr]:
    """`n >= 1` for `-n <= -1`, which says the same to a reader."""
    if not left.terms or not left.is_whole or not right.is_whole or any(c > 0 for _, c in left.terms):
        return left, sign, right
    nothing = SizeExpr.of(0)
    return computed("-", nothing, left), sign.translate(_MIRRORED), computed("-", nothing, right)


def _library_decides() -> bool:
    """Whether the code that compares symbolic sizes is Extempo's own."""
    frame: Any = sys._getframe(1)
    while frame.f_globals.get("__name__") in (__name__, SymInt.__module__):
        frame = frame.f_back
    return str(frame.f_globals.get("__package__", "")).partition(".")[0] == "extempo"


def _always(sign: str, left: SizeExpr, right: SizeExpr) -> bool | None:
    """What a comparison gives whatever the sizes; None if that depends."""
    if not (left.is_whole and right.is_whole):
        return None
    difference = computed("-", left, right)
    if difference.constant is not None:
        return bool(_COMPARISONS[sign](difference.constant, 0))
    back = computed("-", right, left)
    above, below = never_negative(difference), never_negative(back)
    strictly = (above and dict(difference.terms).get((), 0) > 0) or (below and dict(back.terms).get((), 0) > 0)
    if strictly:
        return bool(_COMPARISONS[sign](1 if above else -1, 0))
    if above and sign in (">=", "<"):
        return sign == ">="
    if below and sign in ("<=", ">"):
        return sign == "<="
    return None


def frozen(value: Any, log: SizeLog) -> Any:
    """The value with an expression in place of each symbol; tuples, lists, dicts and types are looked into."""
    if type(value) is SymInt:
        return log.expression(value)
    if isinstance(value, tuple):
        parts = [frozen(v, log) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [frozen(v, log) for v in value]
    if isinstance(value, dict):
        return {k: frozen(v, log) for k, v in value.items()}
    return value


def is_symbolic(value: Any) -> bool:
    """Whether an expression is in it."""
    if isinstance(value, SizeExpr):
        return True
    if isinstance(value, tuple | list):
        return any(map(is_symbolic, value))
    return isinstance(value, dict) and any(map(is_symbolic, value.values()))


def at_sizes(value: Any, sizes: Mapping[str, int]) -> Any:
    """The value with each expression evaluated."""
    if isinstance(value, SizeExpr):
        return value.evaluate(sizes)
    if isinstance(value, Graph) or not is_symbolic(value):
        return value
    if isinstance(value, tuple):
        parts = [at_sizes(v, sizes) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [at_sizes(v, sizes) for v in value]
    return {k: at_sizes(v, sizes) for k, v in value.items()}
