"""The page "Every name of PyTorch": what Extempo has of each, asked of Extempo itself, in a table with a filter.

The names are in torch_names.txt. What a name does here is found as a PyTorch program would find it, by
`import extempo.as_torch`, in a process of its own. What is refused says why in the library's words; what differs is in
the tables of docs/from_pytorch.md and docs/conformance.md.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
NAMES = Path(__file__).with_name("torch_names.txt")
SAME, DIFFERS, REFUSED, MISSING = STATES = ("same", "differs", "refused", "missing")
COMPARED = "agrees on the samples of PyTorch's tests"
MEANS = {
    SAME: "means what it means in PyTorch; where that was compared on PyTorch's own samples, it says so",
    DIFFERS: "is there, and something about it is not as in PyTorch",
    REFUSED: "is left out on purpose, and says what to use in its place",
    MISSING: "is not there",
}


class Answer(NamedTuple):
    """What Extempo has of a name, and what there is to say about it."""

    state: str
    note: str = ""


def torch_names(text: str) -> dict[str, list[str]]:
    """The names of each module and class."""
    places: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.endswith(":"):
            names = places[line[:-1]] = []
        elif line and not line.startswith("#"):
            names.extend(line.split())
    return places


# Runs in a process of its own, where `torch` is Extempo: from {place: names} to {place: {name: [state, note]}}.
_ASK = """
import json, sys, warnings
import extempo.as_torch
from extempo.errors import UnsupportedError
from importlib import import_module
from types import ModuleType

def resolve(path):
    try:
        return import_module(path)
    except ModuleNotFoundError:
        package, _, name = path.rpartition(".")
        return getattr(import_module(package), name)

def ask(path, name):
    try:
        found = getattr(resolve(path), name)
    except UnsupportedError as error:
        return "refused", str(error)
    except (AttributeError, ImportError):
        return "missing", ""
    refusal = getattr(found, "refusal", None)
    if isinstance(refusal, str) and refusal:
        return "refused", refusal
    home = getattr(found, "__module__", None) or ""
    beside = home.startswith("extempo.compat.torch_namespace") and not home.endswith(".native_functions")
    if beside and not isinstance(found, ModuleType):
        return "differs", (found.__doc__ or sys.modules[home].__doc__).strip().splitlines()[0]
    return "same", ""

warnings.simplefilter("ignore")
places = json.load(sys.stdin)
json.dump({path: {name: ask(path, name) for name in names} for path, names in places.items()}, sys.stdout)
"""


def ask(places: dict[str, list[str]]) -> dict[str, dict[str, Answer]]:
    """What Extempo has of each name."""
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        input=json.dumps(places),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"asking Extempo for PyTorch's names failed:\n{done.stderr}")
    found = json.loads(done.stdout)
    return {path: {name: Answer(*answer) for name, answer in names.items()} for path, names in found.items()}


def differences() -> dict[str, str]:
    """What is not as in PyTorch, by names' paths; `.save` is every `save`, wherever it is."""
    known: dict[str, str] = {}

    def note(op: str, text: str) -> None:
        known.update(dict.fromkeys([f"torch.{op}", f"torch.Tensor.{op}", f"torch.Tensor.{op}_"], text))

    for row in _rows("conformance.md", "Held to something else than the same numbers"):
        if row[1].startswith("properties"):
            note(row[0], "a seed repeats a run, and gives other random numbers than in PyTorch")
        elif row[1].startswith(("indices", "what the factors")):
            note(row[0], row[2])
    for row in _rows("conformance.md", "Do not agree"):
        note(row[0], f"on a sample of PyTorch's own tests: {row[1]}")
    for row in _rows("from_pytorch.md", "What differs"):
        for name in re.findall(r"`([\w.]+)`", row[0]):
            known[f".{name}"] = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row[2])
    return known


def compared() -> set[str]:
    """The paths of what agrees with PyTorch on the samples of its own tests."""
    ops = [f"torch.{place}{name}" for name in _named("Pass") for place in ("", "Tensor.")]
    layers = [f"torch.nn.{name}" for name in _named("Modules")]
    return {*ops, *layers, *(f"torch.optim.{name}" for name in _named("Optimizers"))}


def _named(title: str) -> list[str]:
    """What stands as code in a section of docs/conformance.md, outside of tables."""
    lines = [line for line in _section("conformance.md", title).splitlines() if not line.startswith("|")]
    return re.findall(r"`([\w.]+)`", "\n".join(lines))


def _section(page: str, title: str) -> str:
    return (ROOT / "docs" / page).read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


def _rows(page: str, title: str) -> Iterator[list[str]]:
    """The rows of the first table below a heading."""
    for line in [line for line in _section(page, title).splitlines() if line.startswith("|")][2:]:
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def answers() -> dict[str, dict[str, Answer]]:
    """What to show of each name."""
    known, agreeing = differences(), compared()

    def with_what_is_known(path: str, answer: Answer) -> Answer:
        if answer.state != SAME:
            return answer
        ends = (path[dot.start() :] for dot in re.finditer(r"\.", path))
        note = next((known[end] for end in [path, *ends] if end in known), "")
        return Answer(DIFFERS, note) if note else Answer(SAME, COMPARED if path in agreeing else "")

    found = ask(torch_names(NAMES.read_text()))
    return {
        path: {name: with_what_is_known(f"{path}.{name}", answer) for name, answer in names.items()}
        for path, names in found.items()
    }


_FILTER = """
<div class="name-filter">
<input type="search" placeholder="softmax, nn.utils, sparse ..." aria-label="Filter the names">
<div>{boxes} <span></span></div>
</div>
"""


def _table(place: str, names: dict[str, Answer]) -> str:
    rows = "".join(
        f"<tr><td><code>{html.escape(name)}</code></td><td class={answer.state}>{answer.state}</td>"
        f"<td>{_note(answer.note, name)}</td></tr>\n"
        for name, answer in names.items()
    )
    anchor = place.replace(".", "-").lower()
    table = f'<table class="names" data-search-exclude data-place="{place}" data-heading="{anchor}">'
    return f"\n## {place} {{ #{anchor} }}\n\n{table}\n{rows}</table>\n"


def _note(text: str, name: str) -> str:
    """As HTML, with `code` as code, as long as fits a table, and without the name in front of a refusal."""
    text = re.sub(rf"^[\w.]*\b{re.escape(name)}: ", "", text)
    text = text if len(text) < 300 else text[:300].rsplit(" ", 1)[0] + " ..."
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def page(found: dict[str, dict[str, Answer]]) -> str:
    counts = Counter(answer.state for names in found.values() for answer in names.values())
    version = NAMES.read_text().split()[2].rstrip(";")
    boxes = "\n".join(f'<label><input type="checkbox" value="{state}" checked> {state}</label>' for state in STATES)
    lines = [
        "# Every name of PyTorch\n",
        f"The {counts.total():,} public names of PyTorch {version}, and what each is in Extempo, as a program finds it",
        "that is run by `extempo run` or says `import extempo.as_torch` on its first line. With",
        "`import extempo as ex`, `torch.` is `ex.`; [Coming from PyTorch](from_pytorch.md) tells the rest.\n",
        *(f"- **{state}** ({counts[state]:,}): {MEANS[state]}" for state in STATES),
    ]
    tables = "".join(_table(place, names) for place, names in found.items())
    head = f"\n<style>\n{_file('css')}</style>\n" + _FILTER.format(boxes=boxes)
    return "\n".join(lines) + "\n" + head + tables + '\n<script src="assets/torch_names.js"></script>\n'


def _file(ending: str) -> str:
    return Path(__file__).with_suffix(f".{ending}").read_text()


def pages() -> Iterator[tuple[str, str]]:
    yield "torch_names.md", page(answers())
    yield "assets/torch_names.js", _file("js")
