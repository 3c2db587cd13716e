"""What a command prints: in colour and at the terminal's width on a terminal, plain and of 80 columns elsewhere."""

from __future__ import annotations

import sys

import click
from rich.console import Console, RenderableType

PIPED_COLUMNS = 80


def show(renderable: RenderableType) -> None:
    """Print it by `click.echo`."""
    console = Console(width=None if sys.stdout.isatty() else PIPED_COLUMNS, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    # rich fills every line up to the width; in a bug report or a diff those spaces would only be noise.
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))
