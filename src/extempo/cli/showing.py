"""What a command prints: in colour and at the terminal's width on a terminal, plain and of 80 columns elsewhere.

A `COLUMNS` that is exported says the width in both cases. rich, which does it, is imported when there is something to
print, so that `extempo --help` does without.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
PIPED_COLUMNS = 80


def json_option(help: str = "Print one JSON object.") -> Callable[[F], F]:
    """The option of every command whose result a program may want to read."""
    return click.option("--json", "as_json", is_flag=True, help=help)


def show_as(as_json: bool, value: T, to_json: Callable[[T], str], to_text: Callable[[T], RenderableType]) -> None:
    """Print a value for programs or for people."""
    if as_json:
        click.echo(to_json(value))
    else:
        show(to_text(value))


def two_columns(**second: Any) -> Table:
    """A table without lines: names in colour, what there is to say of them beside; `second`: how that is shown."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column(**second)
    return table


def columns() -> int:
    """How many characters a line may have."""
    from rich.console import Console

    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return Console().width if sys.stdout.isatty() else PIPED_COLUMNS


def show(renderable: RenderableType) -> None:
    """Print it by `click.echo`."""
    from rich.console import Console

    console = Console(width=columns(), highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    # rich fills every line up to the width; in a bug report or a diff those spaces would only be noise.
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))
