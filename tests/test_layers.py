"""Imports point downwards: a module knows only what stands below it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import extempo

ROOT = Path(extempo.__file__).parent

# From the bottom up; a name stands for a module or a whole package. Modules of one line may know each other.
LAYERS = [
    {"errors", "_version", "interrupts", "placement", "png", "svg", "weak"},
    {"files", "locks"},
    {"types"},
    {"sizes"},
    {"modes", "telling", "storage", "dlpack"},
    {"strides"},
    {"op"},
    {"graph"},
    {"kernel", "tape"},
    {"backends"},
    {"interpreter", "lines", "_methods", "_tensor", "_format"},
    {"signatures", "updating"},
    {"running"},
    {"short_path", "fronts", "writing", "changing"},
    {"recorder"},
    {"random"},
    {"ops"},
    {"settings", "legacy", "refused"},
    {"autograd"},
    {"planning", "viewing", "flushes", "filling", "offering", "replaying", "linking"},
    {"accounting"},
    {"recorded", "families"},
    {"taking"},
    {"recording", "pruning", "compile_stats"},
    {"static"},
    {"compiling"},
    {"func"},
    {"ragged_tensors"},
    {"linalg", "special", "masked", "signal", "nested"},
    {"nn", "serialization"},
    {"batching"},
    {"optim", "data", "distributions", "amp", "cpu"},
    {"utils"},
    {"inspect"},
    {"metrics"},
    {"train"},
    {"comparing"},
    {"accelerator_api", "cuda", "mps", "xpu", "version"},
    {"testing"},
    {"__init__"},
    {"cli", "__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def module_level_imports(path: Path) -> set[str]:
    """The first part below `extempo` of everything imported when the module is loaded."""
    package = ["extempo", *path.relative_to(ROOT).parent.parts]
    found = set()
    for node in ast.iter_child_nodes(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = package[: len(package) - node.level + 1] if node.level else []
        full = [*base, *(node.module.split(".") if node.module else [])]
        if full[:1] != ["extempo"]:
            continue
        found |= {full[1]} if len(full) > 1 else {alias.name for alias in node.names}
    return found


def part(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_its_own_layer_or_below(path):
    own = part(path)
    assert own in RANK, f"{own} has no layer: add it to LAYERS and to docs/architecture.md"
    for name in module_level_imports(path):
        if name in RANK:
            assert RANK[name] <= RANK[own], f"{path.relative_to(ROOT)} imports {name}, which stands above {own}"


def test_only_the_command_line_and_bars_of_progress_know_click_and_rich():
    for path in MODULES:
        if part(path) in ("cli", "__main__"):
            continue
        assert "import click" not in path.read_text()
        if path.name != "progress.py":
            assert "import rich" not in path.read_text()
            assert "from rich" not in path.read_text()
