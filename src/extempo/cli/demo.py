"""`extempo demo`: a tour from data to prediction, stage by stage, shown as it happens.

The stages are made once (`stages`) and shown as text, as JSON or as a page of HTML. The same seed gives the same
numbers on every run, apart from time and memory.
"""

from __future__ import annotations

import json
import os
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

import extempo as ex
from extempo.cli import demo_task as task
from extempo.cli.demo_page import page
from extempo.cli.demo_stages import (
    N_EPOCHS,
    Folded,
    Stage,
    Verbatim,
    data_in,
    embedding,
    preprocessing,
    recurrent,
    scores,
)
from extempo.cli.demo_training import prediction, training
from extempo.cli.showing import columns
from extempo.inspect import Table
from extempo.inspect.svg import Picture
from extempo.inspect.tables import WIDTH, plain

PAGE_NAME = "demo.html"


def stages(seed: int) -> Iterator[Stage]:
    """The stages, each as soon as it is done."""
    ex.manual_seed(seed)
    examples, held_out = task.sequences(seed)
    model = task.Classifier()
    first = [words for words, _ in examples[: len(task.FIRST_BATCH)]]
    yield data_in(examples, held_out)
    yield preprocessing(first)
    yield embedding(model, first)
    yield recurrent(model, first)
    yield scores(model, first)
    yield from training(model, examples, held_out, N_EPOCHS)
    yield prediction(model, next(words for words, _ in held_out if 4 <= len(words) <= 6))


def run(show: Callable[[RenderableType], None], seed: int = 0, out: Path | None = None) -> list[Stage]:
    """Show the stages one by one, and give them all; `out`: also write the page there."""
    began = time.perf_counter()
    if out is not None:
        _prepare(out)
    done: list[Stage] = []
    for stage in stages(seed):
        done.append(stage)
        show(as_text(stage, min(columns(), WIDTH)))
    if out is not None:
        try:
            (out / PAGE_NAME).write_text(page(done, seed), encoding="utf-8")
        except OSError as error:
            raise _unwritable(out / PAGE_NAME, error.strerror) from None
    written = f" The same as a page, with pictures: {out / PAGE_NAME}" if out is not None else ""
    show(Text(f"\nDone in {time.perf_counter() - began:.1f} s.{written}"))
    return done


def _prepare(out: Path) -> None:
    """Make the directory, so that one that cannot be written to is told of before the tour, not after it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(out, error.strerror) from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise _unwritable(out, "Permission denied")


def _unwritable(path: Path, why: str | None) -> click.ClickException:
    return click.BadParameter(f"cannot write to {str(path)!r}: {why}", param_hint="'--out'")


def as_text(stage: Stage, width: int = WIDTH) -> RenderableType:
    """A stage in lines of at most `width` characters, wrapped here and nowhere else; pictures are left to the page."""
    parts: list[RenderableType] = []
    if stage.title:
        parts.append(Text(f"\n{stage.title}", style="bold cyan"))
    if stage.before:
        parts.append(Text(textwrap.fill(f"{stage.before}  ->  {stage.after}", width), style="green"))
    for block in stage.blocks:
        if isinstance(block, Picture | Folded):
            continue
        if isinstance(block, Table):
            parts.append(Text(block.text(width)))
        elif isinstance(block, Verbatim):
            parts.append(Text(block.text))
        else:
            parts.append(Text(textwrap.fill(block, width, subsequent_indent=" " * (len(block) - len(block.lstrip())))))
    return Group(*parts)


def to_json(done: list[Stage], seed: int) -> str:
    """Every stage's facts, as one JSON object."""
    facts: dict[str, object] = {"seed": seed}
    epochs = []
    for stage in done:
        if stage.name == "epoch":
            epochs.append(stage.facts)
        else:
            shapes = {"before": stage.before, "after": stage.after} if stage.before else {}
            facts[stage.name] = {**shapes, **stage.facts}
    facts["epochs"] = epochs
    return json.dumps(plain(facts), indent=2)
