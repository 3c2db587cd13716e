"""Imports point downwards: a module knows only what stands below it, imports inside functions and slots included."""

from __future__ import annotations

import ast
import functools
import inspect
from pathlib import Path

import pytest

import extempo
from extempo.autograd.native_engine import walker
from extempo.backends import selection
from extempo.batching.call_cache import recorder
from extempo.dispatch.fast_path import launcher
from extempo.dispatch.fused_update import native_stepping

ROOT = Path(extempo.__file__).parent

# From the bottom up; a name stands for a module or a whole package. Those of one line may know each other.
LAYERS = [
    {"errors", "_version"},
    {"core"},
    {"symbolic"},
    {"backends"},
    {"dispatch"},
    {"random", "ops", "autograd"},
    {"scheduling"},
    {"tracing"},
    {"ragged_tensors", "func"},
    {
        *("linalg", "special", "masked", "signal", "nested", "nn", "serialization", "optim", "data", "distributions"),
        *("amp", "cpu", "cuda", "mps", "xpu", "utils", "version", "compat", "batching", "exporting"),
        "distributed",
    },
    {
        *("inspect", "memory", "metrics", "train", "comparing", "testing", "serving", "profiling", "learn"),
        "studio_server",
    },
    {"__init__", "cli", "__main__", "as_torch", "run"},
]
# The rooms that run programs, as against the names that users import and the tools.
CORE = {name for layer in LAYERS[1:9] for name in layer} | {"batching", "exporting"}
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

# Imports that point upwards: (module, what it imports): why. All of them are inside functions.
UPWARDS = {
    ("errors", "core"): "what the frames of an error tell is looked up when it is shown",
    ("core.tensor", "ops"): "Tensor(2, 3) and detach() of a value that is not there yet are ops",
    ("core.tensor", "dispatch"): "detach() of a value that is not there yet is an op",
    ("core.op", "autograd"): "what an elementwise op's gradient reads is derived by tracing it",
    ("dispatch.inplace", "ops"): "a write through a view is an op of the graph",
    ("dispatch.fast_path", "autograd"): "the gradient of a simple op is derived when it first runs",
    ("dispatch.fast_path", "scheduling"): "the classes that native code knows are handed to it when it loads",
    ("dispatch.fast_path", "tracing"): "the classes that native code knows are handed to it when it loads",
    ("autograd.api", "func"): "gradients of many outputs at once (is_grads_batched) run under vmap",
    ("autograd.forward_ad", "func"): "dual tensors are variables like those of jvp",
    ("autograd.functional", "func"): "vectorize=True runs under vmap",
    ("autograd.numerical", "func"): "gradcheck tries gradients under vmap",
    ("tracing.api", "nn"): "ex.compile takes modules",
    ("tracing.static.static_function", "nn"): "a static function looks at the modules that it is bound to",
    ("tracing.static.effects", "nn"): "calling a module and clipping are effects that a static function repeats",
    ("compat.torch_namespace.tensorboard", "train"): "the writer of event files is the Trainer's",
    ("compat.torch_namespace.torch_profiler", "profiling"): "PyTorch's profiler is a tool here",
    ("tracing.static.effects", "optim"): "optimizer steps are effects that a static function repeats",
}
# Native code, in `backends`, reads and writes slots of objects from higher rooms. It imports none of their classes:
# they are handed to it when it is loaded. (Module, class): what is done natively.
SLOTS_FROM_ABOVE = {
    ("autograd.derive", "Gradient"): "backward runs the kernels of a node's gradient",
    ("scheduling.request", "Plan"): "a segment that was met before runs by its plan",
    ("tracing.segment", "Segment"): "a segment that was met before runs by its plan",
    ("tracing.segment", "Counters"): "runs of plans are counted",
    ("tracing.executor", "TraceExecutor"): "it has the trace that ops are appended to",
    ("tracing.trace", "Trace"): "ops are appended to a trace, and its values given out",
    ("batching.sample_tracer", "SampleTracer"): "ops and cells of a sample become calls of the run",
    ("batching.run", "BatchExecutor"): "calls are recorded in the run",
    ("batching.agenda", "Calls"): "calls are recorded in the run",
    ("batching.kinds", "CallKind"): "calls are recorded in the run",
    ("batching.cells", "Cell"): "a call of a cell is compared with those that are cached",
    ("batching.call_cache", "CachedCall"): "a call is compared with those that are cached",
    ("batching.purity_guards", "PurityGuards"): "what a cell reads is compared with what it read",
    ("batching.parts", "Parts"): "rows of values are noted as parts of them",
    ("batching.read_guards", "ContainerGuard"): "what a cell reads is compared with what it read",
}
# A function that needs more than its ops for a ragged argument has one early branch, which imports what does it.
BRANCHES = ("ops", "ragged_tensors")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports_of(path: Path) -> set[tuple[str, bool]]:
    """(First part below `extempo` of what is imported, whether when the module is loaded); not for type checkers."""
    package = ["extempo", *path.relative_to(ROOT).parent.parts]
    found = set()

    def look(node: ast.AST, at_load: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                full = [*base, *(child.module.split(".") if child.module else [])]
                if full[:1] == ["extempo"]:
                    names = [full[1]] if len(full) > 1 else [alias.name for alias in child.names]
                    found.update((name, at_load) for name in names)
            look(child, at_load and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    look(tree_of(path), True)
    return found


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_its_own_layer_or_below(path):
    own = part(path)
    assert own in RANK, f"{own} has no layer: add it to LAYERS and to docs/architecture.md"
    for name, at_load in imports_of(path):
        if name not in RANK or RANK[name] <= RANK[own] or own == "__init__":
            continue
        allowed = not at_load and ((dotted(path), name) in UPWARDS or (own, name) == BRANCHES)
        assert allowed, f"{path.relative_to(ROOT)} imports {name}, which stands above {own}"


def test_there_are_at_most_twelve_layers():
    assert len(LAYERS) <= 12


def test_no_class_name_stands_in_two_modules_of_the_core():
    modules: dict[str, set[str]] = {}
    for path in MODULES:
        if part(path) in CORE:
            for node in tree_of(path).body:
                if isinstance(node, ast.ClassDef):
                    modules.setdefault(node.name, set()).add(dotted(path))
    assert not {name: found for name, found in modules.items() if len(found) > 1}


def test_every_exception_is_still_one():
    used = {(dotted(path), name) for path in MODULES for name, _ in imports_of(path)}
    assert set(UPWARDS) <= used


@pytest.fixture
def known_slots():
    """By class, the slots that native code knows once all of it is loaded."""
    pytest.importorskip("llvmlite")
    if selection.native() is None:
        pytest.skip("the native backend does not run here")
    from extempo.backends.llvm.calls.cpython import KNOWN_SLOTS

    for load in (launcher, walker, recorder, native_stepping):
        load()
    return {cls: names for cls, names in KNOWN_SLOTS.items() if cls.__module__.split(".")[0] == "extempo"}


def test_native_code_knows_slots_of_its_own_room_and_below_and_of_few_listed_classes(known_slots):
    from_above = set()
    for cls in known_slots:
        module = cls.__module__.removeprefix("extempo").removeprefix(".")
        room = module.split(".")[0] or "core"  # Tensor and dtype report the public name
        if RANK[room] > RANK["backends"]:
            from_above.add((module, cls.__name__))
    assert from_above == set(SLOTS_FROM_ABOVE)


def test_what_native_code_takes_for_a_slot_is_one(known_slots):
    for cls, names in known_slots.items():
        for name in names:
            assert inspect.ismemberdescriptor(getattr(cls, name)), f"{cls.__name__}.{name} is no slot"


def test_offsets_of_slots_are_asked_for_in_native_code_alone():
    users = {part(path) for path in MODULES if "slot_offset(" in path.read_text()}
    assert users == {"backends"}


def test_the_top_level_holds_public_names_and_few_modules():
    loose = {path.stem for path in ROOT.glob("*.py")} - {"__init__", "__main__", "_version"}
    assert len(loose) <= 20
    assert loose <= set(extempo.__all__) | {"errors", "testing", "version", "random", "as_torch", "run"}


def test_only_the_command_line_and_bars_of_progress_know_click_and_rich():
    for path in MODULES:
        if part(path) in ("cli", "__main__"):
            continue
        assert "import click" not in path.read_text()
        if path.name != "progress.py":
            assert "import rich" not in path.read_text()
            assert "from rich" not in path.read_text()
