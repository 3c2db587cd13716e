"""`trace`: a model's way from input to output, module by module, in the order in which they ran.

A module that a loop calls several times is there several times, with the number of the call. Looking changes nothing:
afterwards, also when forward raises, the hooks that watch are gone, and buffers (such as running means) and the random
stream are as they were. When forward raises, the way up to there is a note of the error.
"""

from __future__ import annotations

import copy
import math
import re
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np

from ..core.context import no_grad
from ..core.interrupts import Undone, block, certainly
from ..core.tensor import Tensor
from ..core.weak import WeakMembers
from ..core.wording import counted
from ..func.tree import leaves
from ..nn import Module, ModuleDict, ModuleList
from ..ragged_tensors.tensor import RaggedTensor
from ..random import fork_rng
from ..tracing.api import eager
from .style import fragment, page
from .tables import NO_BREAK, WIDTH, Column, Printable, Table, bytes_text, plain, seconds_text

MOST_VALUES = 6
MOST_ROWS = 100  # of a printed trace


class Step(NamedTuple):
    """One call of one module.

    >>> step = ex.inspect.trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), ex.ones(4, 2))["1"]
    >>> step.kind, step.inputs, step.low >= 0, step.n_nan
    ('ReLU', ['float32 (4, 3)'], True, 0)
    """

    name: str  # its path in the model, "" for the model itself
    kind: str  # the name of its class
    call: int  # 1 for the first call of this module, and so on
    depth: int
    inputs: list[str]  # the types of its inputs, such as "float32 (3, 4)"
    outputs: list[str]
    n_parameters: int  # its own and those below
    low: float  # of the output's elements
    high: float
    n_nan: int
    n_inf: int
    seconds: float  # with the modules below
    n_bytes: int  # of the output
    glimpse: str  # the first values of the output
    origin: str  # of a nan or an infinity in the output: what else has one, "" if there is none
    error: str  # what forward raised, "" as a rule
    in_list: bool = False  # it is a child of a ModuleList or ModuleDict


class Trace(Printable):
    """What `trace` saw. Printed it is a table; of a very long run the beginning and the end are shown, and all of it is
    in `.steps`, `.table`, `.to_json()` and `.html()`.

    >>> seen = ex.inspect.trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), ex.ones(4, 2))
    >>> len(seen), seen["0"].kind, seen.first_bad
    (3, 'Linear', None)
    """

    def __init__(self, model: str, steps: list[Step], output: Any) -> None:
        self.model = model
        self.steps = steps
        self.output = output

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, key: int | str) -> Step:
        """A step by its place, or the first one of a module by its name."""
        if isinstance(key, int):
            return self.steps[key]
        found = next((step for step in self.steps if step.name == key), None)
        if found is None:
            raise KeyError(f"no module {key!r} was called; there are {sorted({s.name for s in self.steps})}")
        return found

    @property
    def table(self) -> Table:
        """A row for each call, however many there are."""
        return self._table(self.steps)

    def _table(self, steps: list[Step]) -> Table:
        columns = [
            Column("module", may_shrink=True, least=14),
            Column("in", wraps=True),
            Column("out", wraps=True),
            Column("params", right=True),
            Column("range", wraps=True),
            Column("time", right=True),
            Column("memory", right=True),
        ]
        rows = [
            [
                "  " * step.depth + _title(step),
                types_text(step.inputs),
                step.error or types_text(step.outputs),
                f"{step.n_parameters:,}" if step.n_parameters else "",
                _range(step),
                seconds_text(step.seconds),
                bytes_text(step.n_bytes),
            ]
            for step in steps
        ]
        return Table(columns, rows)

    @property
    def first_bad(self) -> Step | None:
        """The first module whose output has a nan or an infinity, though its own parts' outputs have none."""
        found: Step | None = None
        for step in self.steps:
            if found is not None and step.depth <= found.depth:
                break  # what follows is no part of it
            if step.n_nan or step.n_inf:
                found = step
        return found

    def __str__(self) -> str:
        shown, left_out = self._shown()
        notes = [textwrap.fill(note, WIDTH) for note in (left_out, self._verdict()) if note]
        return "\n".join([self._heading(), self._table(shown).text(), *notes])

    def _heading(self) -> str:
        return f"{self.model}: {counted(len(self.steps), 'call')}"

    def _shown(self) -> tuple[list[Step], str]:
        """The steps that people are shown, and a note of those that are left out."""
        n_hidden = len(self.steps) - MOST_ROWS
        if n_hidden <= 0:
            return self.steps, ""
        half = MOST_ROWS // 2
        told = f"after {_title(self.steps[half - 1])} {n_hidden:,} calls are left out; .table, .to_json() and .html() "
        return self.steps[:half] + self.steps[-half:], told + "have all of them"

    def _verdict(self) -> str:
        bad = self.first_bad
        if bad is None:
            return ""
        what = _counted(bad.n_nan, bad.n_inf)
        return f"first not finite: {_title(bad)} gives {what}; {bad.origin or 'all that it was given is finite'}"

    def as_dict(self) -> dict[str, Any]:
        steps = [{name: plain(value) for name, value in step._asdict().items()} for step in self.steps]
        return {"model": self.model, "steps": steps}

    def html(self) -> str:
        """A page with the table, and the first values of every output."""
        return page(self._heading(), self._html(self.steps, ""))

    def _repr_html_(self) -> str:
        return fragment(self._html(*self._shown()))

    def _html(self, steps: list[Step], left_out: str) -> str:
        rows = [
            [
                "\u00a0\u00a0" * step.depth + _title(step),
                ", ".join(step.inputs),
                step.error or ", ".join(step.outputs),
                f"{step.n_parameters:,}",
                _range(step),
                step.glimpse,
                seconds_text(step.seconds),
                bytes_text(step.n_bytes),
            ]
            for step in steps
        ]
        titles = ["module", "in", "out", "parameters", "range", "values", "time", "memory"]
        columns = [Column(title, right=title in ("parameters", "time", "memory")) for title in titles]
        notes = "".join(f"<p>{escape(note)}</p>" for note in (left_out, self._verdict()) if note)
        return f"<h2>{escape(self._heading())}</h2>{Table(columns, rows).html()}{notes}"


def trace(model: Module, *inputs: Any, **options: Any) -> Trace:
    """Run the model once and tell what each module got and gave: shapes, dtypes, ranges, nan, time, memory.

    Runs eagerly, without gradients and in the model's own train or eval mode; `options` are keyword arguments of
    forward. A model that is traced for the first time runs twice, on copies of its inputs at first, so that loading
    kernels is no layer's time. What looking takes is not part of the time; memory is that of the output. Buffers and
    the random stream are afterwards as they were.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> [(step.name, step.outputs) for step in ex.inspect.trace(model, ex.ones(4, 2))]
    [('', ['float32 (4, 3)']), ('0', ['float32 (4, 3)']), ('1', ['float32 (4, 3)'])]
    """
    require_module("trace", model)
    with unchanged(model), no_grad(), eager():
        _warm_up(model, inputs, options)
    watch = _Watch(model)
    with unchanged(model), watch, no_grad(), eager():
        try:
            output = model(*inputs, **options)
        except Exception as error:
            error.add_note(str(Trace(type(model).__name__, watch.steps(), None)))
            raise
    return Trace(type(model).__name__, watch.steps(), output)


_WARM: WeakMembers[Module] = WeakMembers()  # models that ran here before


def _warm_up(model: Module, inputs: Any, options: Any) -> None:
    """Run a model that was never traced once on copies, so that loading kernels is not booked on a layer."""
    has_hooks = any(module._call_hooks for module in model.modules())
    if model in _WARM or has_hooks or any(hasattr(leaf, "__next__") for leaf in leaves((inputs, options))):
        return  # hooks would see a run too many, and what an iterator gives is there for one run only
    try:
        copies, named = copy.deepcopy((inputs, options))
        model(*copies, **named)
    except Exception:
        return  # the run that is looked at raises it, too
    _WARM.add(model)


def require_module(what: str, model: Any) -> None:
    """Say it clearly if something else was given."""
    if not isinstance(model, Module):
        given = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        hint = "make one of it first" if isinstance(model, type) else "what a function did is in ex.Graph.of(result)"
        raise TypeError(f"{what}: expected a module, got {given}; {hint}")


@block
def unchanged(model: Module) -> Iterator[None]:
    """Put buffers and the random stream back at the end."""
    kept = [
        (module._buffers, name, buffer, buffer._version, buffer.clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and buffer.numel()  # one of a lazy layer has no elements yet, and will have another size
    ]
    with fork_rng():
        try:
            yield
        finally:
            certainly(_put_back, kept)


def _put_back(kept: list[tuple[dict[str, Any], str, Tensor, int, Tensor]]) -> None:
    for buffers, name, buffer, version, values in kept:
        buffers[name] = buffer
        if buffer._version != version:
            buffer.detach().copy_(values)


class _Opened(NamedTuple):
    """A call that has begun."""

    name: str  # of the module in the model
    place: int  # among the found
    call: int  # of this module
    began: float  # without what looking took
    inputs: Any
    error: BaseException | None  # one that was being handled already


class _Watch(Undone):
    """Hooks on every module of a model, for as long as it runs."""

    def __init__(self, model: Module) -> None:
        self._names = {id(module): name for name, module in model.named_modules()}
        self._modules = list(model.modules())
        lists = [m for m in self._modules if isinstance(m, ModuleList | ModuleDict)]
        self._in_lists = {id(child) for holder in lists for child in holder.children()}
        self._without_hooks = [module for module in self._modules if module._call_hooks is None]
        self._found: list[Step | None] = []
        self._open: list[_Opened] = []
        self._looking = 0.0  # seconds that these hooks took so far
        self._calls: dict[int, int] = {}
        self._handles: list[Any] = []

    def _begin(self) -> None:
        for module in self._modules:
            self._handles.append(module.register_forward_pre_hook(self._before, with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._after, always_call=True))

    def _end(self) -> None:
        for handle in self._handles:
            handle.remove()
        for module in self._without_hooks:
            module._call_hooks = None

    def steps(self) -> list[Step]:
        return [step for step in self._found if step is not None]

    def _before(self, module: Module, args: Any, kwargs: Any) -> None:
        now = time.perf_counter()
        call = self._calls[id(module)] = self._calls.get(id(module), 0) + 1
        self._open.append(
            _Opened(
                self._names.get(id(module), ""),
                len(self._found),
                call,
                now - self._looking,
                (args, kwargs),
                sys.exc_info()[1],
            )
        )
        self._found.append(None)

    def _after(self, module: Module, args: Any, output: Any) -> None:
        ended = time.perf_counter()
        opened = self._open.pop()
        error = sys.exc_info()[1]
        outputs = _tensors(output)
        low, high, n_nan, n_inf = _extremes(outputs)
        self._found[opened.place] = Step(
            opened.name,  # "" also of a compiled model, which runs the one that it was made from
            type(module).__name__,
            opened.call,
            len(self._open),
            [_type_text(t) for t in _tensors(opened.inputs)] or [_value_text(a) for a in args],
            [_type_text(t) for t in outputs],
            sum(p.numel() for p in module.parameters()),
            low,
            high,
            n_nan,
            n_inf,
            ended - self._looking - opened.began,
            sum(_flat(t).numel() * _flat(t).element_size() for t in outputs),
            glimpse(outputs[0]) if outputs else "",
            _origin(module, _tensors(opened.inputs)) if n_nan or n_inf else "",
            f"raised {type(error).__name__}" if error is not None and error is not opened.error else "",
            id(module) in self._in_lists,
        )
        self._looking += time.perf_counter() - ended


def _tensors(tree: Any) -> list[Any]:
    """All in tuples, lists, dicts and dataclasses."""
    found = []
    for leaf in leaves(tree):
        if isinstance(leaf, Tensor | RaggedTensor):
            found.append(leaf)
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            found += _tensors([getattr(leaf, field.name) for field in fields(leaf)])
    return found


def _flat(t: Any) -> Tensor:
    return t.values() if isinstance(t, RaggedTensor) else t


def _type_text(t: Any) -> str:
    sizes = ", ".join(map(str, t.shape))
    return f"{str(t.dtype).rpartition('.')[2]} ({sizes})"


def _value_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"numpy {value.dtype} {value.shape}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 30 else text[:27] + "..."


def _origin(module: Module, inputs: list[Any]) -> str:
    """Which of an input and the parameters is not finite already."""
    of_inputs = _counted(*_extremes(inputs)[2:])
    if of_inputs:
        return f"its input has {of_inputs} already"
    for name, parameter in module.named_parameters():
        found = _counted(*_extremes([parameter])[2:])
        if found:
            return f"its parameter {name} has {found}"
    return ""


def glimpse(t: Any, n: int = MOST_VALUES) -> str:
    """The first few values.

    >>> ex.inspect.glimpse(ex.tensor([[0.25, -1.0], [3.0, 4.0]]), 3)
    '0.25 -1 3 ...'
    """
    values = _flat(t).detach().reshape(-1)[: n + 1].tolist()
    told = " ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in values[:n])
    return told + (" ..." if len(values) > n else "")


def _extremes(tensors: list[Any]) -> tuple[float, float, int, int]:
    low, high, n_nan, n_inf = math.inf, -math.inf, 0, 0
    for t in tensors:
        array = np.asarray(_flat(t).detach().numpy())
        if array.dtype.kind in "biu":
            finite = array
        else:
            array = array if array.dtype.kind == "f" else array.astype(np.float64)  # NumPy has no bfloat16
            finite = array[np.isfinite(array)]
            n_nan += int(np.isnan(array).sum())
            n_inf += int(np.isinf(array).sum())
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    return low, high, n_nan, n_inf


def _title(step: Step) -> str:
    """`cell #2: GRUCell`; a child of a list, which is never called itself, has the list's name, too: `blocks.0`."""
    again = f" #{step.call}" if step.call > 1 else ""
    *around, own = step.name.split(".")
    name = f"{around[-1]}.{own}" if around and step.in_list else own
    return f"{name}{again}: {step.kind}" if step.name else f"{step.kind}{again}"


def _range(step: Step) -> str:
    told = f"{step.low:.2g}..{step.high:.2g}" if step.low <= step.high else ""
    return " ".join(part for part in (_counted(step.n_nan, step.n_inf), told) if part)


def _counted(n_nan: int, n_inf: int) -> str:
    return " and ".join(f"{n:,} {what}" for n, what in ((n_nan, "nan"), (n_inf, "inf")) if n)


def types_text(types: list[str]) -> str:
    """Types without what goes without saying, and each shape in one piece."""
    told = ", ".join(text.removeprefix("float32 ") for text in types)
    return re.sub(r"\([0-9*, ]*\)", lambda shape: shape[0].replace(" ", NO_BREAK), told)
