"""`extempo compare script.py:step`: loads the user's scripts, compares their steps, prints and saves what was found.

An error of a script is shown as a line of the script, without the frames of Extempo.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import click

import extempo

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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
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
    from extempo.comparing.reports import read
    from extempo.comparing.variants import MODES

    if not 1 <= len(steps) <= 2:
        raise click.UsageError("name one step, or two: extempo compare train.py:step")
    asked = [mode.strip() for mode in modes.split(",") if mode.strip()]
    for mode in asked:
        if mode not in MODES:
            raise click.UsageError(f"unknown mode {mode!r}; the modes are {', '.join(MODES)}")
    old = None
    if against is not None:
        try:
            old = read(against)
        except ValueError as error:
            raise click.UsageError(f"{against} holds no saved comparison ({error})") from None
    scripts = _Scripts(by_path=len({place.rpartition(":")[0] for place in steps}) > 1)
    variants = [scripts.variant(place, data_name, n_steps) for place in steps]
    if len(variants) == 2 and variants[0].name == variants[1].name:
        variants[1].name += " (2)"
    theirs = None if torch_step is None else scripts.variant(torch_step, data_name, n_steps, torch=True)
    comparison = _shown_errors(lambda: compare_variants(variants, theirs, asked, warm_up, rounds, True))
    changes = None if old is None else comparison.against(old)
    if out is not None:
        comparison.save(out)
    if as_json:
        found = json.loads(comparison.to_json())
        click.echo(
            json.dumps(found if changes is None else found | {"against": json.loads(changes.to_json())}, indent=2)
        )
        return
    click.echo(str(comparison))
    if changes is not None:
        click.echo(f"\n{changes}")
    if out is not None:
        click.echo(f"\nSaved as {out}")


class _Scripts:
    """Scripts by path, each run once."""

    def __init__(self, by_path: bool) -> None:
        self._by_path = by_path  # whether names of steps need those of scripts
        self._loaded: dict[Path, ModuleType] = {}

    def variant(self, place: str, data_name: str, n_steps: int | None, torch: bool = False) -> Any:
        """A step `script.py:name` with the data beside it."""
        from extempo.comparing.variants import Variant

        path, separator, name = place.rpartition(":")
        if not separator or not name.isidentifier():
            raise click.UsageError(f"expected SCRIPT.py:STEP, got {place!r}")
        script = self._load(Path(path))
        step = _found(script, name, path)
        if not callable(step):
            raise click.UsageError(f"{name} of {path} is a {type(step).__name__}, not a function")
        data = _found(script, data_name, path)
        if self._by_path:
            name = f"{Path(path).stem}:{name}"
        metric = getattr(script, "metric", None)
        metric = metric if callable(metric) and not torch else None
        return _shown_errors(lambda: Variant(name, step, data, n_steps, None, metric, torch))

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
        sys.path.insert(0, str(path.parent))
        sys.modules[path.stem] = script
        loader = spec.loader
        _shown_errors(lambda: loader.exec_module(script))
        self._loaded[path] = script
        return script


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
