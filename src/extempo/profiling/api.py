"""`ex.profile`: where the time of a program goes, by line, module, op, kernel and phase.

The same class is PyTorch's `torch.profiler.profile`, with its schedule of steps, and `torch.autograd.profiler.profile`.
"""

from __future__ import annotations

import functools
import gzip
import inspect
import textwrap
import time
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from html import escape
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from .. import _version
from ..core.interrupts import guarded
from ..core.wording import counted
from ..errors import ExtempoError
from ..inspect import style
from ..inspect.tables import Printable, seconds_text
from ..nn import Module
from . import advice, chrome, flame, recording, report, sites
from .call_tree import CallNode, Samples, call_trees
from .events import EventList, events_of
from .lines import line_of
from .recording import Recording
from .report import MOST_ROWS, Rows, phases_text, rows_by, table_of
from .sampling import Sampler, tree_of
from .shares import Share, shares_of
from .steps import ProfilerAction, ProfilerActivity

F = TypeVar("F", bound=Callable[..., Any])
MODES = ("trace", "sample")
_RECORDED = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
_BETWEEN_RECORDS = 0.02  # seconds between the looks that say which lines of Python take long, in mode "trace"
_BETWEEN_SAMPLES = 0.01  # seconds


class profile(Printable, ContextDecorator):  # a function to its users, and PyTorch's name
    """Profile a block: `with ex.profile() as prof:`, then `print(prof)`.

    mode: "trace" writes down every op, kernel, call of a module, step of backward and so on, with its line; "sample"
    looks every few milliseconds where the program is, which costs next to nothing and knows lines and phases only.
    records: how many a trace keeps; when there are more, the oldest are lost, and the report says how many.

    `schedule`, `on_trace_ready` and `step()` are PyTorch's; so are the other arguments, which change nothing here:
    lines and modules are always recorded, shapes and memory are not.

    >>> with ex.profile() as prof:
    ...     y = ex.softmax(ex.ones(100, 100) @ ex.ones(100, 100), dim=-1)
    >>> [row.name for row in prof.by("op") if row.name in ("matmul", "softmax")] != []
    True
    >>> abs(sum(row.share for row in prof.by("phase")) - 1) < 0.05
    True
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        mode: str = "trace",
        records: int = 1 << 20,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        **others: Any,
    ) -> None:
        if mode not in MODES:
            raise ExtempoError(f"profile: mode={mode!r} is not known; use 'trace' or 'sample'")
        if not isinstance(records, int) or records < 1:
            raise ExtempoError(f"profile: records={records!r} is no number of records; use a whole number from 1 on")
        self.mode = mode
        self.enabled = enabled
        self.step_num = 0
        self._n_records = 1 << (records - 1).bit_length()
        self._action_of = schedule or (lambda step: ProfilerAction.RECORD)
        self._on_trace_ready = on_trace_ready
        self._recorder: recording.Recorder | None = None
        self._sampler: Sampler | None = None
        self._begin = 0
        self._recording: Recording | None = None
        self._samples: list[Any] = []
        self._trees: list[CallNode] | None = None  # made when first asked for
        self._all_shares: list[list[Share]] | None = None
        self._metadata: dict[str, str] = {}

    # ---- begin and end

    def __enter__(self) -> Self:
        try:
            if self.enabled and self._action_of(self.step_num) in _RECORDED:
                self._start()
            return self
        except BaseException:
            self._stop()
            raise

    @guarded
    def __exit__(self, *error: object) -> None:
        try:
            self._finish()
        except BaseException:
            self._stop()
            raise

    def _finish(self) -> None:
        was_on = self._recorder is not None or self._sampler is not None
        self._stop()
        if was_on and self._on_trace_ready is not None:
            self._on_trace_ready(self)

    def start(self) -> None:
        """As a `with` block begins."""
        self.__enter__()

    def stop(self) -> None:
        """As a `with` block ends."""
        self.__exit__(None, None, None)

    def step(self) -> None:
        """The next step begins; with a `schedule`, it says whether that is profiled."""
        action = self._action_of(self.step_num)
        self.step_num += 1
        if not self.enabled:
            return
        following = self._action_of(self.step_num)
        if action is ProfilerAction.RECORD_AND_SAVE:
            self._finish()
        elif action in _RECORDED and following not in _RECORDED:
            self._stop()
        if following in _RECORDED and self._recorder is None and self._sampler is None:
            self._start()

    def _start(self) -> None:
        self._recording = None
        self._trees = self._all_shares = None
        if self.mode == "sample":
            self._sampler = Sampler(_BETWEEN_SAMPLES)
        else:
            self._recorder = recording.start(self._n_records)
            self._sampler = Sampler(_BETWEEN_RECORDS)
            self._begin = self._recorder.now()

    def _stop(self) -> None:
        """End what runs and take what was recorded; what has ended already is left alone."""
        recorder, sampler = self._recorder, self._sampler
        end = time.perf_counter_ns()
        if recorder is not None:
            if self._recording is None:
                self._recording = recorder.taken(self._begin)
            self._recorder = None
            recording.stop()
        if sampler is not None:
            sampler.stop()
            self._sampler = None
            self._samples = sampler.samples
            if self.mode == "sample":
                empty = recording.nothing()
                self._recording = Recording(empty, 0, [], {}, 0, sampler.begin, end)

    def __call__(self, fn: F) -> F:
        """As a decorator: every call is profiled, of a generator function what it does while it is asked."""
        if inspect.isgeneratorfunction(fn):

            @functools.wraps(fn)
            def generator(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return (yield from fn(*args, **kwargs))

            return cast(F, generator)
        return super().__call__(fn)

    # ---- what was recorded

    @property
    def recording(self) -> Recording:
        """The records as they were written."""
        if self._recording is None:
            raise ExtempoError("profile: nothing was recorded yet; read it after the with block, or after prof.stop()")
        return self._recording

    @property
    def trees(self) -> list[CallNode]:
        """The calls as trees, one for each thread, that of the thread which profiled first."""
        if self._trees is None:
            self._trees = self._grown()
        return self._trees

    def _grown(self) -> list[CallNode]:
        found = self.recording
        if self.mode == "sample":
            return [tree_of(self._samples, found.begin, found.end)]
        samples: Samples = [
            (sample.moment, tuple([line_of(*frame) for frame in sample.frames[:1]])) for sample in self._samples
        ]
        return call_trees(found, samples)

    @property
    def _shares(self) -> list[list[Share]]:
        if self._all_shares is None:
            self._all_shares = [shares_of(tree) for tree in self.trees]
        return self._all_shares

    @property
    def seconds(self) -> float:
        """What the block took, as a clock has it."""
        found = self.recording
        return (found.end - found.begin) / 1e9

    @property
    def n_lost(self) -> int:
        """Records that were overwritten because there were too many."""
        return self.recording.n_lost

    @property
    def covered_from(self) -> float:
        """Seconds after the beginning from which on nothing was lost."""
        found = self.recording
        if not found.n_lost or not len(found.records):
            return 0.0
        return max(int(found.records["end"][0]) - found.begin, 0) / 1e9

    # ---- reports

    def by(self, what: str = "line", thread: int = 0) -> Rows:
        """Time by "line", "module", "op", "kernel" or "phase", the most first; `thread`: 0 is the one that profiled."""
        tree = self.trees[thread]
        return rows_by(what, self._shares[thread], max(tree.total, 1), self._module_names())

    def _module_names(self) -> dict[int, str]:
        """The paths of modules in the outermost modules that were called."""
        names: dict[int, str] = {}
        for tree in self.trees:
            roots = {id(node.object): node.object for node in tree.walk() if _is_outermost(node)}
            for model in roots.values():
                for path, module in model.named_modules():
                    kind = type(module).__name__
                    names.setdefault(id(module), f"{path} {kind}" if path else kind)
        return names

    @property
    def advice(self) -> list[str]:
        """What the profile suggests to do, as sentences; often none."""
        return advice.advice_of(self._shares[0], max(self.trees[0].total, 1)) if self.mode == "trace" else []

    def text(self, n_rows: int = MOST_ROWS) -> str:
        """The lines that took most, phases and advice, in 80 columns."""
        found = self.recording
        head = f"{seconds_text(self.seconds)} by the clock, {self._amount()}"
        parts = [head, "", table_of(self.by("line"), n_rows).text(), "", *_wrapped(phases_text(self.by("phase")))]
        if any(row.is_estimate for row in self.by("line")):
            parts += ["~ with time of fused kernels, shared among their lines by estimated cost"]
        for k, tree in enumerate(self.trees[1:], 1):
            used = sum(child.total for child in tree.children.values() if child.name != "Python") / 1e9
            parts.append(f"another thread ran ops for {seconds_text(used)}: prof.by('line', thread={k})")
        if found.n_lost:
            parts += _wrapped(
                f"{counted(found.n_lost, 'record')} lost, the oldest: the first {seconds_text(self.covered_from)} are "
                f"booked as Python; profile fewer steps, pass records={2 * self._n_records} or mode='sample'"
            )
        for one in self.advice:
            parts += _wrapped(f"advice: {one}")
        return "\n".join(parts)

    def _amount(self) -> str:
        if self.mode == "sample":
            return counted(len(self._samples), "sample")
        return counted(len(self.recording.records), "record")

    def __str__(self) -> str:
        if self._recording is None:
            return f"<ex.profile, mode {self.mode!r}: nothing was recorded yet>"
        return self.text()

    __repr__ = __str__

    def as_dict(self) -> dict[str, Any]:
        """All reports as plain values."""
        tables = {what: [row._asdict() for row in self.by(what)] for what in report.BY}
        return {"seconds": self.seconds, "mode": self.mode, "lost": self.n_lost, **tables, "advice": self.advice}

    def flame(self, path: str | Path | None = None) -> str:
        """The flame graph as SVG, written to a file if one is named."""
        made = flame.svg_of(self.trees[0], f"{seconds_text(self.seconds)}, {self._amount()}")
        if path is not None:
            Path(path).write_text(made, encoding="utf-8")
        return made

    def chrome(self, path: str | Path) -> None:
        """The records as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open; `.gz` is packed."""
        if self.mode == "sample":
            raise ExtempoError("profile: samples are no trace; use mode='trace', or prof.flame(...)")
        metadata = {"extempo": _version.__version__, **self._metadata}
        text = chrome.json_of(self.recording, metadata)
        if str(path).endswith(".gz"):
            with gzip.open(path, "wt", encoding="utf-8") as file:
                file.write(text)
        else:
            Path(path).write_text(text, encoding="utf-8")

    def html(self, path: str | Path | None = None) -> str:
        """Flame graph and tables as one page that needs no other file, written to a file if one is named."""
        parts = [
            f"<h1>Profile</h1><p class='faint'>{escape(seconds_text(self.seconds))} by the clock, {self._amount()}</p>"
        ]
        parts += [f"<p class='card'>{escape(one)}</p>" for one in self.advice]
        parts.append(f"<figure>{self.flame()}</figure>")
        for what in report.BY:
            rows = self.by(what)
            if rows:
                parts.append(f"<h2>By {what}</h2>{table_of(rows, 40).html()}")
        made = style.page("Profile", "\n".join(parts))
        if path is not None:
            Path(path).write_text(made, encoding="utf-8")
        return made

    def _repr_html_(self) -> str:
        return style.fragment(f"<pre>{escape(str(self))}</pre>" + ("" if self._recording is None else self.flame()))

    # ---- PyTorch's names

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """All calls by name."""
        return events_of(self.trees) if self._recording is not None else EventList()

    events = key_averages

    @property
    def function_events(self) -> EventList:
        """All calls by name."""
        return self.key_averages()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **kwargs: Any) -> str:
        """All calls by name, as text."""
        return self.key_averages().table(sort_by, row_limit, **kwargs)

    def export_chrome_trace(self, path: str) -> None:
        """As `chrome`."""
        self.chrome(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Stacks and their microseconds, one a line, as flame graph programs read them."""
        Path(path).write_text("\n".join(flame.folded(self.trees[0])) + "\n", encoding="utf-8")

    def add_metadata(self, key: str, value: str) -> None:
        """Something that a trace says of itself."""
        self._metadata[key] = value

    add_metadata_json = add_metadata


def _is_outermost(node: CallNode) -> bool:
    if node.kind != sites.MODULE or not isinstance(node.object, Module):
        return False
    return not any(outer.kind == sites.MODULE for outer in node.path[:-1])


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 80, subsequent_indent="  ", break_on_hyphens=False)


class record_function(ContextDecorator):  # PyTorch's name
    """A stretch of code that has a name in profiles.

    >>> with ex.profile() as prof, ex.profiling.record_function("my loss"):
    ...     loss = (ex.ones(3) * 2).sum()
    >>> [event.key for event in prof.key_averages() if event.key == "my loss"]
    ['my loss']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._starts: list[tuple[recording.Recorder | None, int]] = []

    def __enter__(self) -> Self:
        recorder = recording.current()
        self._starts.append((recorder, 0 if recorder is None else recorder.now()))
        return self

    def __exit__(self, *error: object) -> None:
        recorder, begin = self._starts.pop()
        if recorder is not None and recorder is recording.current():  # it may have ended meanwhile
            recorder.label(self.name)(begin, recorder.now())


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For `on_trace_ready`: writes the trace to a file in a folder.

    >>> import pathlib, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with ex.profile(on_trace_ready=ex.profiling.tensorboard_trace_handler(folder)):
    ...     ex.ones(3).sum()
    tensor(3.)
    >>> len(list(pathlib.Path(folder).glob("*.json")))
    1
    """

    def write(finished: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{worker_name or 'worker'}.{finished.step_num}.pt.trace.json" + (".gz" if use_gzip else "")
        finished.chrome(folder / name)

    return write
