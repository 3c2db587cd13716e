"""Random programs mean what they mean in PyTorch, and have the same bits eager, compiled, first and later.

A program is 5 to 40 lines of `statements`, on inputs of many dtypes, shapes (sizes 0 and 1 are frequent) and layouts.
It is drawn by running it in PyTorch, so every line is one that PyTorch takes; of the lines that it refuses some stay,
to be refused. Extempo runs it in a process that has run nothing:

- values and gradients agree with PyTorch's. How close they can be is measured by running it in float64, too.
- three eager calls and four compiled ones have the same bits, and values lie alike in memory.
- what PyTorch raises, in a line or in backward, is raised.

    python tests/fuzz programs --seed 0 --seconds 600
    PROGRAM=17 python tests/fuzz programs --seed 0            that one alone; its lines are printed

A failing program is printed as short as it can be while it fails in the same way.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

import extempo as ex

from . import statements
from .first_call import in_a_child, load_extempo

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 1, 2, 3, 5, 8)
DTYPES = ("float32", "float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")
FLOATS = ("float32", "float64", "float16", "bfloat16")
LAYOUTS = ("plain", "plain", "transposed", "sliced", "expanded")
NUMBERS = ("0.5", "-1.5", "2.0", "0.75", "1.0")
N_EAGER, N_COMPILED = 3, 4
LARGEST = 1e3  # beyond, rounding says more than the program
MOST_ELEMENTS = 4_000
# What PyTorch lacks on a CPU says nothing on what is right. Extempo keeps less for backward: more may be overwritten.
ONLY_PYTORCH = re.compile(
    "not implemented|not supported|unsupported|expected .*dtype|have the same dtype|modified by an inplace"
)
# PyTorch looks neither at the dtypes of empty matrices nor at every index into an empty dimension.
ONLY_EXTEMPO = re.compile(
    "expected both of one dtype|input is .* but weight is|out of range for dimension -?[0-9]+ of size 0"
)
EPSILON = {"float32": 1.2e-7, "float16": 1e-3, "bfloat16": 8e-3}


class Leaf(NamedTuple):
    """An input: what it is made of, and how the program sees it."""

    dtype: str
    shape: tuple[int, ...]
    layout: str
    tracked: bool
    seed: tuple[int, int, int]

    def base(self) -> Array:
        """Multiples of 1/8, small ints or bools, in the shape that is stored."""
        rng, shape = np.random.default_rng(self.seed), self.shape
        if self.layout == "transposed":
            shape = shape[::-1]
        elif self.layout == "sliced" and shape:
            shape = (*shape[:-1], 2 * shape[-1] + 1)
        elif self.layout == "expanded" and shape:
            shape = (1, *shape[1:])
        if self.dtype == "bool":
            return np.asarray(rng.random(shape) < 0.5)
        if self.dtype in FLOATS:
            return np.asarray(rng.integers(-16, 17, shape) / 8.0)
        return np.asarray(rng.integers(-3, 4, shape))

    def seen(self, x: Any) -> Any:
        """The stored tensor as the program gets it."""
        if not self.shape or self.layout == "plain":
            return x
        if self.layout == "transposed":
            return x.permute(*reversed(range(len(self.shape))))
        return x[..., 1::2] if self.layout == "sliced" else x.expand(*self.shape)


class Program(NamedTuple):
    leaves: tuple[Leaf, ...]
    lines: tuple[str, ...]
    returned: tuple[str, ...]
    refused: str = ""  # a line that PyTorch refuses after those

    def text(self) -> str:
        """The function, which returns the tensors that are looked at."""
        names = ", ".join(f"v{i}" for i in range(len(self.leaves)))
        body = [part for line in self.lines for part in line.split("\\n")]
        return "\n".join([f"def program({names}):", *(f"    {part}" for part in body), *self._end()])

    def _end(self) -> list[str]:
        return [f"    return [{', '.join(self.returned)}]"]

    def function(self, lib: Any, wide: bool = False) -> Callable[..., Any]:
        """The function in one library; `wide`: with float64 for every floating dtype."""
        text = self.text()
        space: dict[str, Any] = {"lib": lib, "F": lib.nn.functional}
        exec(compile(widened(text) if wide else text, "<program>", "exec"), space)
        return space["program"]


def widened(text: str) -> str:
    text = re.sub(r"lib\.(float32|float16|bfloat16)", "lib.float64", text)
    return re.sub(r"\.(half|float)\(\)", ".double()", text)


class Seen(NamedTuple):
    """What a call shows: (dtype, array, strides) of values, gradients, or an error."""

    values: list[Any]
    gradients: list[Any]
    error: str = ""
    where: str = ""


def _array(t: Any) -> Array:
    t = t.detach()
    name = str(t.dtype).rpartition(".")[2]
    return np.array((t.double() if name in ("bfloat16", "float16") else t).numpy())


def _look(t: Any) -> tuple[str, Array, tuple[int, ...]]:
    array = _array(t)
    return str(t.dtype).rpartition(".")[2], array, tuple(t.stride()) if array.size else ()


def leaves_in(lib: Any, program: Program, wide: bool) -> list[Any]:
    made = []
    for leaf in program.leaves:
        dtype = "float64" if wide and leaf.dtype in FLOATS else leaf.dtype
        t = lib.from_numpy(leaf.base().copy()).to(getattr(lib, dtype))
        made.append(t.requires_grad_() if leaf.tracked else t)
    return made


def observe(lib: Any, program: Program, function: Callable[..., Any], wide: bool = False) -> Seen:
    """One call, and the gradients of its results for fixed cotangents."""
    lib.manual_seed(0)
    stored = leaves_in(lib, program, wide)
    try:
        results = function(*[leaf.seen(t) for leaf, t in zip(program.leaves, stored, strict=True)])
        values = [_look(t) for t in results]
    except Exception as error:
        return Seen([], [], f"{type(error).__name__}: {error}", "forward")
    tracked = [t for t in stored if t.requires_grad]
    ends = [t for t in results if t.requires_grad]
    if not tracked or not ends:
        return Seen(values, [])
    rng = np.random.default_rng(3)
    starts = [lib.from_numpy(np.asarray(rng.integers(-8, 9, tuple(t.shape)) / 8.0)).to(t.dtype) for t in ends]
    try:
        gradients = lib.autograd.grad(ends, tracked, starts, allow_unused=True)
    except Exception as error:
        return Seen(values, [], f"{type(error).__name__}: {error}", "backward")
    return Seen(values, [None if g is None else _look(g) for g in gradients])


# ---- drawing


class _Draft:
    """A program while it is drawn: its lines, and what they have made in PyTorch."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])
        dims = [int(self.rng.choice(SIZES)) for _ in range(3)]
        self.leaves = tuple([self._leaf(dims, (seed, number, i)) for i in range(int(self.rng.integers(2, 5)))])
        self.lines: list[str] = []
        self.names = {f"v{i}" for i in range(len(self.leaves))}
        self.exact = {f"v{i}" for i in range(len(self.leaves))}
        self.refused = ""
        self.space = self._run()

    def _leaf(self, dims: list[int], seed: tuple[int, int, int]) -> Leaf:
        rng = self.rng
        shape = dims[int(rng.integers(0, 4)) :] if rng.random() < 0.5 else dims[1:]
        shape = [1 if rng.random() < 0.15 else size for size in shape]
        dtype = str(rng.choice(DTYPES if seed[2] else FLOATS[:2]))
        tracked = dtype in FLOATS and rng.random() < 0.6
        return Leaf(dtype, tuple(shape), str(rng.choice(LAYOUTS)), bool(tracked), seed)

    def program(self) -> Program:
        made = sorted(self.names - {f"v{i}" for i in range(len(self.leaves))}, key=lambda name: int(name[1:]))
        some = [name for name in made if self.rng.random() < 0.25]
        return Program(self.leaves, tuple(self.lines), tuple(dict.fromkeys([*some, *made[-1:]])), self.refused)

    def _run(self) -> dict[str, Any]:
        """All lines again, in PyTorch."""
        space: dict[str, Any] = {"lib": torch, "F": torch.nn.functional}
        program = Program(self.leaves, (), ())
        for i, (leaf, t) in enumerate(zip(self.leaves, leaves_in(torch, program, False), strict=True)):
            space[f"v{i}"] = leaf.seen(t)
        for line in self.lines:
            exec(line.replace("\\n", "\n"), space)
        return space

    def _of(self, fits: Callable[[Any], bool], exact: bool) -> str | None:
        names = [n for n in sorted(self.names, key=lambda n: int(n[1:])) if fits(self.space[n])]
        if exact:
            names = [n for n in names if n in self.exact]
        if not names:
            return None
        return names[-1 - min(int(self.rng.geometric(0.35)) - 1, len(names) - 1)]

    def draw_line(self) -> None:
        """One more line, if PyTorch takes what is drawn and the result is worth going on with."""
        kinds = {"EXACT": 0.4, "ROUNDED": 0.33, "STEPS": 0.07, "WHOLE": 0.07, "WRITES": 0.1, "FLOWS": 0.03}
        kind = str(self.rng.choice(list(kinds), p=list(kinds.values())))
        pattern = str(self.rng.choice(getattr(statements, kind)))
        name = f"v{max(int(n[1:]) for n in self.names) + 1}"
        line, used = self._filled(pattern, name, kind == "STEPS")
        if line is None:
            return
        try:
            exec(line.replace("\\n", "\n"), self.space)
        except Exception as error:
            if not self.refused and self.rng.random() < 0.1 and not ONLY_PYTORCH.search(str(error)):
                self.refused = line
            self.space = self._run()
            return
        made = self.space.get(name)
        if not isinstance(made, torch.Tensor) or not self._worth(made) or not all(map(self._worth, self._values())):
            self.space = self._run()
            return
        self.lines.append(line)
        self.names.add(name)
        if (
            kind in ("EXACT", "STEPS", "WHOLE")
            and used <= self.exact
            and made.dtype not in (torch.half, torch.bfloat16)
        ):
            self.exact.add(name)
        elif kind == "WRITES":
            self.exact.clear()  # what shares memory with what is not told

    def _values(self) -> Iterator[torch.Tensor]:
        return (self.space[name] for name in self.names)

    def _worth(self, t: torch.Tensor) -> bool:
        if t.numel() > MOST_ELEMENTS or t.dim() > 6 or t.is_complex():
            return False
        values = t.detach().double()
        return bool(values.isfinite().all()) and (not t.numel() or float(values.abs().max()) < LARGEST)

    def _filled(self, pattern: str, name: str, exact: bool) -> tuple[str | None, set[str]]:
        used: dict[str, str] = {}
        wanted = {
            "a": lambda t: t.is_floating_point(),
            "b": lambda t: t.is_floating_point(),
            "i": lambda t: not t.is_floating_point() and t.dtype is not torch.bool,
            "q": lambda t: t.dtype is torch.bool,
            "x": lambda t: True,
            "e": lambda t: t.is_floating_point(),
        }
        for key, fits in wanted.items():
            if f"{{{key}}}" in pattern:
                found = self._of(fits, exact or key == "e")
                if found is None:
                    return None, set()
                used[key] = found
        first = self.space[next(iter(used.values()))] if used else None
        n_dims = max(first.dim(), 1) if first is not None else 1
        rng = self.rng
        line = pattern.format(
            **used, o=name, d=int(rng.integers(-n_dims, n_dims)), c=rng.choice(NUMBERS), n=int(rng.integers(0, 4)),
            t=f"lib.{rng.choice(FLOATS)}",
        )  # fmt: skip
        return line, set(used.values())


def draw(seed: int, number: int) -> Program:
    """The program of that number."""
    draft = _Draft(seed, number)
    n_lines = int(draft.rng.integers(5, 41))
    for _ in range(3 * n_lines):
        if len(draft.lines) < n_lines:
            draft.draw_line()
    return draft.program()


# ---- checking


def _bits(seen: Seen, strides: bool = True) -> list[Any]:
    found: list[Any] = [seen.error]
    for i, shown in enumerate((*seen.values, *seen.gradients)):
        if shown is None:
            found.append(None)
            continue
        dtype, array, lies = shown
        if array.dtype.kind == "f":
            array = np.where(np.isnan(array), np.nan, array)
        found.append((dtype, array.shape, lies if strides and i < len(seen.values) else (), array.tobytes()))
    return found


def in_extempo(program: Program) -> tuple[Seen, list[str]]:
    """The first call, and sentences on later ones that differ from it."""
    eager, wrong = program.function(ex), []
    first = observe(ex, program, eager)
    compiled = ex.compile(program.function(ex))
    calls = [(f"eager call {i + 1}", eager) for i in range(1, N_EAGER)]
    calls += [(f"compiled call {i + 1}", compiled) for i in range(N_COMPILED)]
    for when, function in calls:
        other = observe(ex, program, function)
        if _bits(other) != _bits(first):
            layout_only = _bits(other, strides=False) == _bits(first, strides=False)
            wrong.append(
                f"{'strides' if layout_only else 'bits'} of {when} are not those of the first: {_how(first, other)}"
            )
    if program.refused:
        longer = program._replace(lines=(*program.lines, program.refused))
        if not observe(ex, longer, longer.function(ex)).error:
            wrong.append(f"not refused: {program.refused}")
    return first, wrong


def _how(first: Seen, other: Seen) -> str:
    if first.error != other.error:
        return f"{first.error or 'no error'} / {other.error or 'no error'}"
    for kind, these, those in (("value", first.values, other.values), ("gradient", first.gradients, other.gradients)):
        for i, (a, b) in enumerate(zip(these, those, strict=True)):
            if _bits(Seen([a], [])) != _bits(Seen([b], [])):
                return f"{kind} {i}: {_short(a)} / {_short(b)}"
    return ""


def _short(shown: Any) -> str:
    return "None" if shown is None else f"{shown[0]}{list(shown[1].shape)} {shown[2]} {shown[1].ravel()[:4].tolist()}"


def _epsilon(program: Program) -> float:
    """The rounding of the narrowest dtype that it has; float32 comes by default."""
    text = program.text() + " ".join([leaf.dtype for leaf in program.leaves])
    narrowest = "bfloat16" if "bfloat16" in text else "float16" if re.search("float16|half", text) else "float32"
    return EPSILON[narrowest]


def _apart(kind: str, ours: list[Any], theirs: list[Any], wide: list[Any], epsilon: float) -> Iterator[str]:
    """What differs by more than PyTorch differs from itself in float64."""
    for i, (own, their, exact) in enumerate(zip(ours, theirs, wide, strict=True)):
        own_array = 0.0 if own is None else own[1]
        if their is None:
            if np.any(own_array):
                yield f"{kind} {i}: PyTorch has none, here it is {_short(own)}"
            continue
        if own is not None and (own[0] != their[0] or own[1].shape != their[1].shape):
            yield f"{kind} {i}: {_short(own)}, PyTorch has {_short(their)}"
            continue
        if not their[1].size:
            continue
        known = exact is not None and exact[1].shape == their[1].shape
        own64, their64 = np.asarray(own_array, np.float64), their[1].astype(np.float64)
        scale = float(np.abs(np.nan_to_num(their64)).max())
        noise = float(np.abs(np.nan_to_num(their64 - exact[1].astype(np.float64))).max()) if known else scale
        allowed = (30 * noise + 100 * epsilon * (scale + 1.0)) * (their[0] in FLOATS)
        if not np.allclose(own64, their64, rtol=0.0, atol=allowed, equal_nan=True):
            yield f"{kind} {i}: {_short(own)}, PyTorch has {_short(their)}, apart by more than {allowed:.1e}"


def failures_of(program: Program) -> list[str]:
    """Sentences on what is wrong."""
    torch.set_num_threads(1)
    theirs = observe(torch, program, program.function(torch))
    torch.set_default_dtype(torch.float64)
    try:
        wide = observe(torch, program, program.function(torch, wide=True), wide=True)
    finally:
        torch.set_default_dtype(torch.float32)
    try:
        ours, wrong = in_a_child(lambda: in_extempo(program))
    except ChildProcessError as error:
        return [str(error)]
    if bool(ours.error) != bool(theirs.error):
        if not ONLY_PYTORCH.search(theirs.error) and not ONLY_EXTEMPO.search(ours.error):
            wrong.append(
                f"{theirs.where or ours.where}: {ours.error or 'no error'}, PyTorch {theirs.error or 'has none'}"
            )
        return wrong
    if wide.error or len(wide.values) != len(theirs.values):
        wide = theirs
    epsilon = _epsilon(program)
    if theirs.where != "forward" and ours.where != "forward":
        wrong += _apart("value", ours.values, theirs.values, wide.values, epsilon)
    if not theirs.error and not ours.error and len(ours.gradients) == len(theirs.gradients) == len(wide.gradients):
        wrong += _apart("gradient", ours.gradients, theirs.gradients, wide.gradients, epsilon)
    return wrong


def _kind(sentence: str) -> str:
    return sentence.partition(":")[0].rstrip("0123456789 ")


def shortened(program: Program, wrong: list[str]) -> Program:
    """The program without the lines that its failure does not need."""
    wanted = _kind(wrong[0])

    def still(shorter: Program) -> bool:
        with contextlib.suppress(Exception):
            if observe(torch, shorter, shorter.function(torch)).where != "forward" or wanted.startswith("forward"):
                return any(_kind(sentence) == wanted for sentence in failures_of(shorter))
        return False

    for name in program.returned:
        fewer = program._replace(returned=tuple([n for n in program.returned if n != name]))
        if fewer.returned and still(fewer):
            program = fewer
    for line in reversed(program.lines):
        fewer = program._replace(lines=tuple([other for other in program.lines if other is not line]))
        if still(fewer):
            program = fewer
    return program


def described(program: Program) -> str:
    inputs = [
        f"v{i}: {leaf.dtype}{list(leaf.shape)} {leaf.layout}{', tracked' * leaf.tracked}"
        for i, leaf in enumerate(program.leaves)
    ]
    refused = [f"    refused by PyTorch: {program.refused}"] * bool(program.refused)
    return "\n".join(
        [*(f"    # {text}" for text in inputs), *(f"    {line}" for line in program.text().split("\n")), *refused]
    )


def failures_in(seed: int, numbers: list[int]) -> list[str]:
    """Texts on the programs of these numbers that fail."""
    load_extempo()
    return [text for number in numbers if (text := failure(seed, number))]


def failure(seed: int, number: int) -> str:
    """What is wrong with one program, which is printed as short as it fails; "" if all is well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = draw(seed, number)
        wrong = failures_of(program)
        if not wrong:
            return ""
        again = f"PROGRAM={number} python tests/fuzz programs --seed {seed}"
        return "\n".join([again, *wrong[:3], described(shortened(program, wrong))])


def run(seed: int, seconds: float) -> int:
    """Programs 0, 1, 2, ... of the seed, or the one that PROGRAM names."""
    end, n_failures, only = time.monotonic() + seconds, 0, os.environ.get("PROGRAM")
    load_extempo()
    if only:
        print(described(draw(seed, int(only))))
        text = failure(seed, int(only))
        print(text)
        return int(bool(text))
    number = 0
    while time.monotonic() < end:
        text = failure(seed, number)
        if text:
            n_failures += 1
            print(text, flush=True)
        number += 1
    print(f"{number} programs")
    return n_failures
