"""`extempo compare script.py:step`: loads the user's scripts, compares their steps, prints and saves what was found.

An error of a script is shown as a line of the script, without the frames of Extempo.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import click

import extempo
from extempo.cli.showing import json_option, show

if TYPE_CHECKING:
    from rich.text import Text

T = TypeVar("T")
_PACKAGE = str(Path(extempo.__file__).parent)


@click.command()
@click.argument("steps", nargs=-1, metavar="SCRIPT.py:STEP [OTHER.py:STEP]")
@click.option("--data", "data_name", default="data", show_default=True, help="The list of batches in each script.")
@click.option("--modes", default="", help="Comma-separated, of eager, compile and static.")
@click.option("--rounds", type=click.IntRange(1), help="How often each mode runs the data.  [default: 7 to 35]")
@click.option("--steps", "n_steps", type=click.IntRange(1), help="Steps of a round.  [default: the data]")
@click.option("--warm-up", type=click.IntRange(1), help="Steps before the rounds.  [default: two rounds]")
@click.option("--torch", "torch_step", metavar="SCRIPT.py:STEP", help="The same step in PyTorch.")
@json_option()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Save the figures as JSON.")
@click.option("--against", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="An earlier --out file.")
def compare(
    steps: tuple[str, ...],
    data_name: str,
    modes: str,
    rounds: int | None,
    n_steps: int | None,
    warm_up: int | None,
    torch_step: str | None,
    as_json: bool,
    out: Path | None,
    against: Path | None,
) -> None:
    """Measure what dynamic graphs cost YOUR training step.

    SCRIPT.py has a function STEP that trains on one batch and returns its
    loss, and a list of batches, `data`; also `metric()`, if there is one: more
    is better. The step runs eagerly, under ex.compile and in the static mode,
    on the same weights and batches. Two steps are compared under ex.compile.
    """
    from extempo.comparing.calling import compare_variants

    if not 1 <= len(steps) <= 2:
        raise click.UsageError("name one step, or two: extempo compare train.py:step")
    asked = _modes(modes)
    if out is not None and not out.parent.is_dir():
        raise click.UsageError(f"--out: there is no directory {out.parent}")
    old = None if against is None else _saved(against)
    scripts = _Scripts()
    variants = [
        scripts.variant(place, name, data_name, n_steps) for place, name in zip(steps, _names(steps), strict=True)
    ]
    theirs = None if torch_step is None else scripts.variant(torch_step, "torch", data_name, n_steps, torch=True)
    if not as_json:
        _announce(variants, theirs, asked, any(option is not None for option in (rounds, n_steps, warm_up)))
    comparison = _shown_errors(lambda: compare_variants(variants, theirs, asked, warm_up, rounds, True))
    changes = None if old is None else comparison.against(old)
    if out is not None:
        comparison.save(out)
    _print(comparison, changes, as_json)
    if out is not None and not as_json:
        click.echo(f"\nSaved as {out}")


def _announce(variants: list[Any], torch: Any, modes: list[str], chosen: bool) -> None:
    """One line on what is going on, for those who wait; a bar with the details appears on a terminal."""
    from extempo.comparing.variants import MODES

    ways = modes or (list(MODES) if len(variants) == 1 else ["compile"])
    names = " and ".join(variant.name for variant in variants)
    beside = " beside PyTorch" if torch is not None else ""
    limit = "" if chosen else "; this takes at most half a minute"
    click.echo(f"Running {names} ({', '.join(ways)}){beside}, in turn, from the same weights{limit} ...", err=True)


def _modes(text: str) -> list[str]:
    from extempo.comparing.variants import MODES

    asked = [mode.strip() for mode in text.split(",") if mode.strip()]
    for mode in asked:
        if mode not in MODES:
            raise click.UsageError(f"unknown mode {mode!r}; the modes are {', '.join(MODES)}")
    return asked


def _saved(path: Path) -> dict[str, Any]:
    from extempo.comparing.reports import read

    try:
        return read(path)
    except ValueError as error:
        raise click.UsageError(f"{path} holds no saved comparison ({error})") from None


def _print(comparison: Any, changes: Any, as_json: bool) -> None:
    if as_json:
        found = json.loads(comparison.to_json())
        if changes is not None:
            found["against"] = json.loads(changes.to_json())
        click.echo(json.dumps(found, indent=2))
        return
    show(coloured(str(comparison)))
    if changes is not None:
        show(coloured(f"\n{changes}"))


def coloured(report: str) -> Text:
    """The report with its headings, verdict and warnings in colour, where there is any."""
    from rich.text import Text

    text = Text(report)
    text.highlight_regex(r"(?m)^ {3,}\S.*$|^(Training time|Memory|Flexibility)\b(?! High| Low).*$|^Next:", "bold")
    text.highlight_regex(r"(?m)^(Unfair|Leak|\w+ cannot run this step)\b", "bold red")
    text.highlight_regex(r"(?m)^Note:", "yellow")
    for style, words in _STYLES.items():
        text.highlight_regex(rf"(?m)^Verdict: ({words})", f"bold {style}")
    return text


_STYLES = {
    "green": "good|dynamic only",
    "yellow": "watch|inconclusive|overfitted to speed",
    "red": "bad|unfair",
}


def _names(places: tuple[str, ...]) -> list[str]:
    """What the steps are called: by name, if these differ; with their scripts' names, or as much of their paths."""
    paths = [Path(place.rpartition(":")[0]).resolve().with_suffix("").parts for place in places]
    steps = [place.rpartition(":")[2] for place in places]
    if len(set(paths)) > 1:
        n_parts = next(n for n in range(1, 99) if len({path[-n:] for path in paths}) == len(paths))
        return [f"{'/'.join(path[-n_parts:])}:{step}" for path, step in zip(paths, steps, strict=True)]
    return [step if i == steps.index(step) else f"{step} ({i + 1})" for i, step in enumerate(steps)]


class _Scripts:
    """Scripts by path, each run once."""

    def __init__(self) -> None:
        self._loaded: dict[Path, ModuleType] = {}
        self._batches: dict[Path, list[Any]] = {}  # drawn once, as a DataLoader may shuffle

    def variant(self, place: str, called: str, data_name: str, n_steps: int | None, torch: bool = False) -> Any:
        """A step `script.py:name` with the data beside it, or else that of the first step."""
        from extempo.comparing.variants import MOST_STEPS, Variant

        path, separator, name = place.rpartition(":")
        if not separator or not name.isidentifier():
            raise click.UsageError(f"expected SCRIPT.py:STEP, got {place!r}")
        script = self._load(Path(path))
        step = _found(script, name, path)
        if not callable(step):
            raise click.UsageError(f"{name} of {path} is a {type(step).__name__}, not a function")
        key = Path(path).resolve()
        if key not in self._batches:
            if self._batches and not hasattr(script, data_name):
                key = next(iter(self._batches))
            else:
                data = _found(script, data_name, path)
                if not isinstance(data, Iterable):
                    raise click.UsageError(f"{data_name} of {path} is a {type(data).__name__}, not a list of batches")
                self._batches[key] = _shown_errors(lambda: list(islice(data, n_steps or MOST_STEPS)))
        batches = self._batches[key]
        metric = getattr(script, "metric", None)
        metric = metric if callable(metric) and not torch else None
        return _shown_errors(lambda: Variant(called, step, batches, n_steps, None, metric, torch))

    def _load(self, path: Path) -> ModuleType:
        path = path.resolve()
        if path in self._loaded:
            return self._loaded[path]
        if not path.is_file():
            raise click.UsageError(f"there is no script {path}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise click.UsageError(f"{path} is not a Python script")
        script = importlib.util.module_from_spec(spec)
        for other in self._loaded:
            if other.parent != path.parent:
                _forget_modules_in(other.parent, path.parent)
        sys.path.insert(0, str(path.parent))
        sys.modules[path.stem] = script
        loader = spec.loader
        _shown_errors(lambda: loader.exec_module(script))
        self._loaded[path] = script
        return script


def _forget_modules_in(directory: Path, new: Path) -> None:
    """Let a script elsewhere import its own `model.py`, not the one that a script in this directory has imported."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        root = name.partition(".")[0]
        shadowed = (new / f"{root}.py").is_file() or (new / root).is_dir()
        if file and shadowed and Path(file).is_relative_to(directory) and "site-packages" not in file:
            del sys.modules[name]


def _found(script: ModuleType, name: str, path: str) -> Any:
    if not hasattr(script, name):
        known = sorted(n for n, v in vars(script).items() if not n.startswith("_") and not isinstance(v, ModuleType))
        raise click.UsageError(f"{path} has no {name!r}; it has {', '.join(known) or 'nothing'}")
    return getattr(script, name)


def _shown_errors(run: Callable[[], T]) -> T:
    """What the function returns; an error is told by the line of the user's script that it comes from."""
    try:
        return run()
    except click.ClickException:
        raise
    except SyntaxError as error:
        raise click.ClickException(f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}") from None
    except (Exception, SystemExit) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_users(f.filename)]
        what = f"{type(error).__name__}: {error}"
        if not frames:
            raise click.ClickException(what) from None
        last = frames[-1]
        raise click.ClickException(f"{last.filename}:{last.lineno}, in {last.name}\n    {last.line}\n{what}") from None


def _is_users(filename: str) -> bool:
    return not filename.startswith((_PACKAGE, "<")) and "site-packages" not in filename
